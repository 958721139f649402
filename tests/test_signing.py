"""Signatures are those that the page promises, whoever makes them, and keys are read in one way alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import time

import pytest

from rag_assets.errors import InvalidArgument
from rag_assets.signing import MIN_KEY_BYTES, ScopeKey, new_key, parse_key, sign_scope


@pytest.mark.parametrize("user", [None, "ann", "żółw 🐢", "0:,"])
def test_a_signature_is_what_another_program_makes_by_the_page(user: str | None) -> None:
    key = ScopeKey("k1", bytes(range(40)))
    made = sign_scope("acme", "support", user, key=key, seconds=60)
    parts = [part.encode() for part in ("k1", "acme", "support", user or "", str(made.expires))]
    message = b"rag-scope-1:" + b"".join(str(len(part)).encode() + b":" + part + b"," for part in parts)
    assert made.signature == hmac.new(bytes(range(40)), message, hashlib.sha256).hexdigest()
    assert (made.key, abs(made.expires - time.time() - 60) < 5) == ("k1", True)


@pytest.mark.parametrize("length", [32, 63, 64, 65, 200])
def test_the_blocks_of_a_key_are_those_of_hmac(length: int) -> None:
    key = ScopeKey("k", os.urandom(length))
    inner, outer = key.blocks
    by_hand = hashlib.sha256(outer + hashlib.sha256(inner + b"text").digest()).hexdigest()
    assert by_hand == hmac.new(key.secret, b"text", hashlib.sha256).hexdigest()


def test_every_way_to_write_a_key_is_read_as_the_same_key() -> None:
    for _ in range(200):
        secret = os.urandom(MIN_KEY_BYTES)
        written = [secret.hex(), secret.hex().upper(), base64.b64encode(secret).decode()]
        written += [base64.urlsafe_b64encode(secret).decode(), base64.urlsafe_b64encode(secret).decode().rstrip("=")]
        keys = {parse_key(text) for text in written}
        assert {key.secret for key in keys} == {secret}
        assert len({key.id for key in keys}) == 1
        assert {parse_key(f"of-2026:{text}").id for text in written} == {"of-2026"}
        key = keys.pop()
        assert parse_key(key.text) == key
        assert secret.hex() not in repr(key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "k1:",
        "ab" * 31,
        "k1:" + "ab" * 31,
        "ab" * 31 + "a",
        "ab" * 32 + "a",
        "a b:" + "ab" * 32,
        ":" + "ab" * 32,
        "k" * 33 + ":" + "ab" * 32,
        "a:b:" + "ab" * 32,
        "ab" * 32 + "é",
        "not a key at all, but long enough for one, so one might think",
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_key(text)
    assert len(text) < 20 or text not in str(refused.value)


def test_two_new_keys_have_nothing_in_common() -> None:
    first, second = new_key(), new_key()
    assert first.secret != second.secret
    assert first.id != second.id
