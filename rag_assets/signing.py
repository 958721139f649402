"""Signed scopes: what somebody who knows the key says about whose rows a session may read.

What is signed, by HMAC-SHA256, is `rag-scope-1:` and then five parts, each as its length in bytes of UTF-8, `:`, the
part and `,`: the id of the key, tenant, bot, user (empty for none), and the last second in which it holds, in seconds
since 1970. For the key `k1`: `rag-scope-1:2:k1,4:acme,7:support,0:,10:1790000000,`. The signature is written in
hexadecimal, in lower case. The database verifies it: `rag.scope_verified`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rag_assets.errors import InvalidArgument, ScopeError, shown
from rag_assets.keys import check_key

MIN_KEY_BYTES = 32
DEFAULT_SECONDS = 300
MAX_SECONDS = 86_400
KEY_FORM = (
    "[ID:]KEY, the key in hexadecimal or base64 and of at least 32 bytes, the id of 1 to 32 of A-Z, a-z, 0-9, - and _"
)
_BLOCK = 64  # bytes that SHA-256 takes at a time
_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_HEX = re.compile(r"[0-9A-Fa-f]*")


@dataclass(frozen=True)
class ScopeKey:
    """A key that scopes are signed with. `id` is the name that the database knows it by, and no secret."""

    id: str
    secret: bytes = field(repr=False)

    @property
    def blocks(self) -> tuple[bytes, bytes]:
        """What verification begins its inner and its outer hash with (RFC 2104), 64 bytes each: as secret as the key,
        since whoever has them can sign."""
        key = hashlib.sha256(self.secret).digest() if len(self.secret) > _BLOCK else self.secret
        key = key.ljust(_BLOCK, b"\0")
        return bytes(byte ^ 0x36 for byte in key), bytes(byte ^ 0x5C for byte in key)

    @property
    def text(self) -> str:
        """As `RAG_SCOPE_KEY` has it."""
        return f"{self.id}:{self.secret.hex()}"


@dataclass(frozen=True)
class ScopeSignature:
    """That a tenant's bot may be asked for a user until `expires` (seconds since 1970), signed with the key of that id.

    Whoever has it and the application's login can read what that scope may, and nothing else, until then.
    """

    key: str
    expires: int
    signature: str = field(repr=False)

    @property
    def settings(self) -> Mapping[str, str]:
        """The `rag.*` settings of a transaction that it adds to those of the scope."""
        return {"key": self.key, "expires": str(self.expires), "signature": self.signature}


def parse_key(text: str) -> ScopeKey:
    """A key as `RAG_SCOPE_KEY` has it. Without an id it has one that follows from it.

    Raises:
        InvalidArgument: it is none, or too short.
    """
    name, colon, written = text.strip().rpartition(":")
    secret = _decoded(written)
    if (colon and not _ID.fullmatch(name)) or secret is None or len(secret) < MIN_KEY_BYTES:
        raise InvalidArgument(f"a key of scopes has to be {KEY_FORM}", "scope_key")
    return ScopeKey(name or _id_of(secret), secret)


def new_key() -> ScopeKey:
    """A new random key."""
    secret = secrets.token_bytes(MIN_KEY_BYTES)
    return ScopeKey(_id_of(secret), secret)


def sign_scope(
    tenant: str, bot: str, user_id: str | None = None, *, key: str | ScopeKey, seconds: int = DEFAULT_SECONDS
) -> ScopeSignature:
    """Sign that `tenant`'s `bot` may be asked for `user_id` (None: for nobody in particular), for so many seconds.

    For a service that knows the key (as `RAG_SCOPE_KEY` has it) and who asks: the process that searches passes what it
    returns to `open_scope`, and need not know the key.

    Raises:
        InvalidArgument: names the argument that is out of bounds; for tenant and bot an `InvalidKey`.
        ScopeError: the user is empty or no text.
    """
    check_key(tenant, "tenant")
    check_key(bot, "bot")
    if user_id is not None and (not isinstance(user_id, str) or not user_id):
        raise ScopeError("a user id is a text that is not empty; leave it out for a scope without a user", "user_id")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 1 <= seconds <= MAX_SECONDS:
        raise InvalidArgument(f"seconds must be from 1 to {MAX_SECONDS}, got {shown(seconds)}", "seconds")
    return signed(parse_key(key) if isinstance(key, str) else key, tenant, bot, user_id or "", seconds)


def signed(key: ScopeKey, tenant: str, bot: str, user: str, seconds: int) -> ScopeSignature:
    """As `sign_scope`, of values that were checked."""
    expires = int(time.time()) + seconds
    message = b"rag-scope-1:" + b"".join(
        b"%d:%b," % (len(part), part)
        for part in (text.encode("utf-8", "surrogatepass") for text in (key.id, tenant, bot, user, str(expires)))
    )
    return ScopeSignature(key.id, expires, hmac.digest(key.secret, message, "sha256").hex())


def _decoded(written: str) -> bytes | None:
    if _HEX.fullmatch(written):  # one that was cut off is not base64 of another key
        return bytes.fromhex(written) if len(written) % 2 == 0 else None
    plain = written.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        return None


def _id_of(secret: bytes) -> str:
    return hashlib.sha256(b"rag-scope-key-id:" + secret).hexdigest()[:12]
