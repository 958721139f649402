"""Secrets in addresses: none is remembered or shown, and a reference to a variable stands for it.

`https://{env:RAG_ROOT_USER}:{env:RAG_ROOT_PASSWORD}@example.com/` and `?token={env:RAG_ROOT_TOKEN}` are stored and
printed as they are, and filled in when a request is sent. Only variables named RAG_ROOT_… can be referred to, so that
no address reaches a key of something else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

from rag_assets.addresses import ROOT_VARIABLES
from rag_assets.documents.names import is_web
from rag_assets.errors import RootUnreadable
from rag_assets.settings import read_variable

PREFIX = ROOT_VARIABLES
HIDDEN = "***"
_TELLING = 4  # characters of a secret: what is shorter stands everywhere by chance
_Value = TypeVar("_Value")
_REFERENCE = re.compile(r"\{env:([^{}]*)\}")
_NAME = re.compile(rf"{PREFIX}[A-Z0-9_]+")
_FILLED = "REFERENCE"  # stands for a reference where an address is taken apart
_LOGIN = re.compile(r"^([a-z][a-z0-9+.-]*://)([^/?#]*)@", re.IGNORECASE)
# A login that is not written as it has to be: the `/` in its password ends the host.
_BROKEN_LOGIN = re.compile(
    r"^((?:https?|ftps?|sftp|s3|gs|gcs|az|abfss?|file):[/\\]*)([^/\\?#@:]*:(?!\d{1,5}[/\\?#])[^?#]*)@", re.IGNORECASE
)
_PARAMETER = re.compile(r"([?&;#])([^=&;#]+)=([^&;#\s]*)")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SECRET_WORDS = frozenset(
    (
        *("token", "secret", "password", "passwd", "passphrase", "passcode", "pwd", "pass", "apikey", "sig"),
        *("signature", "credential", "credentials", "auth", "authorization", "bearer", "jwt", "session", "sessionid"),
        *("sid", "sas", "otp", "pw", "hmac", "oauth", "userpass", "loginpass", "awsaccesskeyid", "googleaccessid"),
    )
)
# What a name says also where its words are written as one: `authkey`, `PHPSESSID`, `mytoken`.
_SECRET_PARTS = re.compile(
    r"token(?!s|iz)|secret|passw|passphrase|passcode|credential|signature|sessi?on?id|sessid|oauth"
    r"|(?:api|auth|access|private|user|pass|license|client|service|admin|account)key"
)
# Tokens that are known by their form, whatever they are the value of: those of GitHub, GitLab, Slack, AWS, Google and
# others, and signed ones of JSON.
_TOKEN = re.compile(
    r"(?<![\w-])(?:gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{10,}|sk-[\w-]{20,}|hf_\w{20,}|eyJ[\w-]{8,}\.[\w-]{2,}\.[\w-]*)"
)
_KEY_OF = frozenset(("api", "access", "secret", "private", "auth", "subscription", "account", "shared", "master"))
_SIGNED = ("x-amz-", "x-goog-")
_WAY_OUT = (
    f"name a variable instead, as in https://{{env:{PREFIX}USER}}:{{env:{PREFIX}PASSWORD}}@host/ or "
    f"?token={{env:{PREFIX}TOKEN}}; its value is read when a page is"
)


def secret_problem(uri: str) -> str | None:
    """Why an address must not be remembered: it holds a secret, or refers to a variable that it may not read."""
    if is_web(uri):
        for name in _REFERENCE.findall(uri):
            if not _NAME.fullmatch(name):
                return f"{shown(uri)}: {{env:{name}}} is not allowed; variables for roots are named {PREFIX}…"
    filled = _REFERENCE.sub(_FILLED, uri) if is_web(uri) else uri
    try:
        parts = urlsplit(filled)
        is_whole = not is_web(uri) or (bool(parts.hostname) and parts.port != 0)
    except ValueError:
        is_whole = False  # said without repeating it: what stands where the port should may be a password
    if not is_whole:
        return f"what follows {uri.partition('://')[0]}:// is no address of a server; write it as https://host/path"
    login, at, host = parts.netloc.rpartition("@")
    if _FILLED in host:
        return f"{shown(uri)}: a variable may not stand for the host"
    if at and not _may_be_stored(login, is_web(uri)):
        return f"{shown(uri)} holds a user name or password; {_WAY_OUT}"
    for found in _PARAMETER.finditer(filled):
        name, value = unquote(found.group(2)), unquote(found.group(3))
        if value not in ("", _FILLED) and (_is_secret(name) or _holds_secret(value)):
            return f"{shown(uri)}: the parameter {name!r} looks like a secret; {_WAY_OUT}"
    if _TOKEN.search(unquote(filled)):
        return f"{shown(uri)}: a part of it looks like a secret; {_WAY_OUT}"
    return None


def _may_be_stored(login: str, web: bool) -> bool:
    user, colon, password = login.partition(":")
    if colon:
        return password == _FILLED
    # A lone user name is often a token; in abfs://container@account it is a container.
    return user == _FILLED or not web


def _is_secret(name: str) -> bool:
    low = name.lower()
    words = [word.lower() for word in _WORDS.findall(name)]
    plain = re.sub(r"[^a-z]", "", low)
    return (
        low.startswith(_SIGNED)
        or plain in _SECRET_WORDS | {"key"}
        or _SECRET_PARTS.search(plain) is not None
        or any(word in _SECRET_WORDS for word in words)
        or any(second == "key" and first in _KEY_OF for first, second in pairwise(words))
    )


def _holds_secret(value: str) -> bool:
    """Whether a value is an address with a secret in it."""
    return "://" in value and secret_problem(value) is not None


def shown(uri: str) -> str:
    """The address as it may be printed: what looks like a secret becomes `***`, references stay."""
    uri = _BROKEN_LOGIN.sub(_shown_login, uri)
    if "://" not in uri:
        return uri
    uri = _LOGIN.sub(_shown_login, uri)
    return _TOKEN.sub(HIDDEN, _PARAMETER.sub(_shown_parameter, uri))


def shown_text(text: str) -> str:
    """A text with every address in it as it may be printed."""
    return _ADDRESS.sub(lambda found: shown(found.group()), text) if "://" in text else text


def without_secrets(value: _Value, *addresses: str | None) -> _Value:
    """What is known of sources, texts, mappings and lists of them, as it may be shown.

    Roots of early versions were stored with their secrets, and so was what is named after them. Where none of the
    sources' `addresses` holds one, the value is as it was: links in documents are the documents' own.
    """
    holding = [one for one in addresses if one is not None and shown(one) != one]
    secrets = {secret for address in holding for secret in _secrets_of(address)}
    return cast("_Value", _hidden(value, secrets)) if holding else value


def _secrets_of(address: str) -> Iterator[str]:
    for found in _LOGIN.finditer(address):
        yield from (found.group(2), *(part for part in found.group(2).split(":") if len(part) >= _TELLING))
    for found in _PARAMETER.finditer(address):
        if _is_secret(unquote(found.group(2))) and len(found.group(3)) >= _TELLING:
            yield from (found.group(3), unquote(found.group(3)))


def _hidden(value: object, secrets: Collection[str]) -> object:
    if isinstance(value, str):
        value = shown_text(value)
        for secret in sorted(secrets, key=len, reverse=True):
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, Mapping):
        return {name: _hidden(one, secrets) for name, one in value.items()}
    return [_hidden(one, secrets) for one in value] if isinstance(value, list) else value


def _shown_login(found: re.Match[str]) -> str:
    scheme, login = found.groups()
    is_stored = _may_be_stored(_REFERENCE.sub(_FILLED, login), is_web(scheme))
    return found.group() if is_stored else f"{scheme}{HIDDEN}@"


def _shown_parameter(found: re.Match[str]) -> str:
    start, name, value = found.groups()
    if not value or _REFERENCE.fullmatch(value) or not (_is_secret(unquote(name)) or _holds_secret(unquote(value))):
        return found.group()
    return f"{start}{name}={HIDDEN}"


@dataclass(frozen=True)
class Filled:
    """An address with its secrets. `login` are user and password where it has them; `address` is without them."""

    address: str
    login: tuple[str, str] | None
    secrets: tuple[tuple[str, str], ...]  # what was filled in, and the reference that stood there

    def hide(self, text: str) -> str:
        """The text without what was filled in."""
        for secret, reference in self.secrets:
            for form in {secret, quote(secret, safe="")}:
                text = text.replace(form, reference)
        return shown_text(text)


def filled(uri: str) -> Filled:
    """Fill in the variables that a web address refers to.

    Raises:
        RootUnreadable: one of them is not set, or may not be read.
    """
    secrets = tuple(dict.fromkeys(_values(uri)))
    values = {reference: value for value, reference in secrets}
    login = None
    found = _LOGIN.match(uri)
    if found:
        user, _, password = _REFERENCE.sub(lambda one: _escape(one.group()), found.group(2)).partition(":")
        login = (_unescape(user, values), _unescape(password, values))
        uri = found.group(1) + uri[found.end() :]
    address = _REFERENCE.sub(lambda one: quote(values[one.group()], safe=""), uri)
    return Filled(address, login, secrets)


def _escape(reference: str) -> str:
    return reference.replace(":", "\0")


def _unescape(text: str, values: dict[str, str]) -> str:
    text = unquote(text.replace("\0", ":"))
    return _REFERENCE.sub(lambda one: values[one.group()], text)


def _values(uri: str) -> Iterator[tuple[str, str]]:
    for found in _REFERENCE.finditer(uri):
        name = found.group(1)
        value = read_variable(name) if _NAME.fullmatch(name) else None
        if value is None:
            raise RootUnreadable(f"{shown(uri)}: the variable {name} is not set")
        yield value, found.group()


def as_written(address: str) -> str:
    """An address that a site names, as a root or one of its pages: what looks like a reference in it is none of ours,
    whose value that site could have sent to it, and it brings no user and password of its own."""
    return _REFERENCE.sub(lambda one: quote(one.group(), safe=""), _LOGIN.sub(r"\1", address))


def login_of(uri: str) -> str:
    """The references to user and password that an address begins with, with their `@`, or ""."""
    found = _LOGIN.match(uri)
    return f"{found.group(2)}@" if found else ""


def with_login(uri: str, login: str) -> str:
    """The address with the user and password of another one."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{login}{rest}"


def public_name(uri: str) -> str:
    """The address as its readers know it: without user, password, and what variables stand for."""
    head, mark, query = _LOGIN.sub(r"\1", uri).partition("?")
    kept = [part for part in query.split("&") if not _REFERENCE.search(part)]
    return head + mark + "&".join(kept) if any(kept) else head
