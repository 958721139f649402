"""Whoever has the application's login and not the key reads nothing; with one signature, that scope and no other."""

from __future__ import annotations

import random
import re
import string
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rag_assets.signing import ScopeKey, ScopeSignature, new_key, sign_scope, signed
from rag_assets.store import scope_keys
from rag_assets.store.database import Database
from tests.support.scopes import set_scope
from tests.support.signed_world import (
    BOT,
    KEY,
    REFUSED,
    SOURCES,
    TENANTS,
    build,
    intruder,
    key_of,
    read,
    rightly,
    scope,
)

VECTOR = "[1" + ",0" * 63 + "]"
# Functions that work as somebody else, as a program calls them. Any other is called with nulls.
CALLS = {
    "search": "rag.search('lexical', NULL, 'valve code', 100)",
    "search_space": f"rag.search_space('hybrid', '{VECTOR}', 'valve code', 100, true)",
    "graph_search": "rag.graph_search('valve', 3, 50, 100)",
    "shared_bot": "rag.shared_bot()",
}


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = build(new_database, tmp_path_factory.mktemp("files"))
    yield database
    database.close()


@pytest.fixture
def attacker(world: Database) -> Iterator[psycopg.Connection[Any]]:
    with intruder(world) as connection:
        yield connection


def catalogue(world: Database, statement: str) -> list[Any]:
    with psycopg.connect(world.url) as connection:
        return [row[0] for row in connection.execute(statement)]


def readable(world: Database) -> list[str]:
    return catalogue(
        world,
        "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'rag'::regnamespace AND "
        "c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_any_column_privilege('rag_app', c.oid, 'SELECT') ORDER BY 1",
    )


def callable_functions(world: Database) -> list[tuple[str, str]]:
    """Name and a call of each function that the app may execute, but for triggers."""
    rows = catalogue(
        world,
        "SELECT ROW(p.proname, 'rag.' || quote_ident(p.proname) || '(' || array_to_string(ARRAY("
        "SELECT 'NULL::' || format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, place) "
        "ORDER BY place), ', ') || ')')::text FROM pg_proc p WHERE p.pronamespace = 'rag'::regnamespace "
        "AND p.prokind = 'f' AND p.prorettype <> 'trigger'::regtype "
        "AND has_function_privilege('rag_app', p.oid, 'EXECUTE')",
    )
    found = [re.fullmatch(r'\((\w+),"?(.*?)"?\)', row, re.DOTALL) for row in rows]
    return [(one[1], CALLS.get(one[1], one[2])) for one in found if one]


def test_every_relation_that_the_app_can_read_shows_nothing_without_a_signature(
    world: Database, attacker: psycopg.Connection[Any]
) -> None:
    names = readable(world)
    assert len(names) >= 12
    shown = []
    for name in names:
        statement = f"SELECT * FROM {name}"
        for tenant in TENANTS:
            assert read(attacker, scope(tenant), statement) in ([], REFUSED), name
            assert read(attacker, scope(tenant, user="ann"), f"SELECT count(*) FROM {name}") in ([(0,)], REFUSED), name
        found = read(attacker, rightly(), statement)
        assert isinstance(found, list), (name, found)
        assert not any("beta" in map(str, row) or TENANTS["beta"] in str(row) for row in found), name
        shown += [name] if found else []
    assert {"rag.knowledge_chunks", "rag.knowledge_sources", "rag.source_documents", "rag.embedding_profiles"} <= {
        name if "." in name else f"rag.{name}" for name in shown
    }


def test_every_function_that_the_app_can_call_tells_nothing_without_a_signature(
    world: Database, attacker: psycopg.Connection[Any]
) -> None:
    spaces = catalogue(world, "SELECT ROW(p.knowledge_space_id, p.id, p.tenant_id)::text FROM rag.embedding_profiles p")
    functions = callable_functions(world)
    assert set(CALLS) <= {name for name, _ in functions}
    for row in spaces:
        space, profile, tenant = row.strip("()").split(",")
        forged = {**scope(tenant, user="ann"), "space": space, "profile": profile}
        for name, call in functions:
            said = read(attacker, forged, f"SELECT * FROM {call}")
            assert not any(secret in str(said) for secret in (*TENANTS.values(), "all-bots")), name
            if name in CALLS:
                assert said == REFUSED, name
    alpha = next(row.strip("()").split(",") for row in spaces if row.endswith("alpha)"))
    right = {**rightly(), "space": alpha[0], "profile": alpha[1]}
    found = read(attacker, right, f"SELECT * FROM {CALLS['search']}")
    assert TENANTS["alpha"] in str(found)
    assert TENANTS["beta"] not in str(found)


def test_no_scope_at_all_is_no_rows_as_ever(world: Database, attacker: psycopg.Connection[Any]) -> None:
    for name in readable(world):
        assert read(attacker, {}, f"SELECT * FROM {name}") == [], name
    for call in CALLS.values():
        assert read(attacker, {}, f"SELECT * FROM {call}") in ([], [(None,)]), call


def wrongly(world: Database) -> dict[str, dict[str, str | None]]:
    right = sign_scope("alpha", BOT, None, key=KEY)
    ann = sign_scope("alpha", BOT, "ann", key=KEY)
    retired = key_of(world)
    scope_keys.retire_scope_key(world, retired.id)
    base = dict(scope(signed=right))
    digits = right.signature
    return {
        "no signature": {**base, "signature": ""},
        "another tenant": {**base, "tenant": "beta"},
        "another bot": {**base, "bot": "sales"},
        "a user": {**base, "user": "ann"},
        "another user": {**dict(scope(user="bob", signed=ann))},
        "no user": {**dict(scope(signed=ann))},
        "longer": {**base, "expires": str(right.expires + 1)},
        "expiry with a zero before": {**base, "expires": f"0{right.expires}"},
        "expiry with a space": {**base, "expires": f" {right.expires}"},
        "no expiry": {**base, "expires": ""},
        "another key's id": {**base, "key": retired.id},
        "no key": {**base, "key": ""},
        "truncated": {**base, "signature": digits[:-1]},
        "truncated by a byte": {**base, "signature": digits[:-2]},
        "half": {**base, "signature": digits[:32]},
        "upper case": {**base, "signature": digits.upper()},
        "longer signature": {**base, "signature": digits + "00"},
        "no hexadecimal": {**base, "signature": "g" * 64},
        "zeros": {**base, "signature": "0" * 64},
        "expired": dict(scope(signed=signed(KEY, "alpha", BOT, "", -1))),
        "expired long ago": dict(scope(signed=signed(KEY, "alpha", BOT, "", -10**9))),
        "a key that is not known": dict(scope(signed=sign_scope("alpha", BOT, key=new_key()))),
        "a retired key": dict(scope(signed=sign_scope("alpha", BOT, key=retired))),
        "another key under this id": dict(scope(signed=sign_scope("alpha", BOT, key=ScopeKey(KEY.id, bytes(32))))),
        "a longer key": dict(scope(signed=sign_scope("alpha", BOT, key=ScopeKey(KEY.id, KEY.secret + b"\1")))),
        "parts moved": dict(scope("alph", "asupport", signed=right)),
        "parts swapped": dict(scope(BOT, "alpha", signed=right)),
        "user as a part of the bot": dict(scope("alpha", f"{BOT},3:ann", signed=ann)),
    }  # fmt: skip


def test_what_is_forged_altered_expired_or_of_another_key_is_refused(
    world: Database, attacker: psycopg.Connection[Any]
) -> None:
    assert len(read(attacker, rightly(), SOURCES)) == 9
    for what, settings in wrongly(world).items():
        for statement in (SOURCES, f"SELECT * FROM {CALLS['search']}", "SELECT rag.scope_verified()"):
            assert read(attacker, settings, statement) == REFUSED, what


def test_any_changed_byte_of_what_is_signed_or_of_the_signature_is_refused(
    world: Database, attacker: psycopg.Connection[Any]
) -> None:
    chance = random.Random(7)
    tried = 0
    for _ in range(60):
        user = chance.choice(
            (None, "ann", "żółw", "".join(chance.choices(string.printable[:94], k=chance.randint(1, 40))))
        )
        right = {**rightly(chance.choice(list(TENANTS)), chance.choice((BOT, "sales")), user)}
        assert read(attacker, right, "SELECT rag.scope_verified()") == [(True,)]
        part = chance.choice(["tenant", "bot", "user", "key", "expires", *["signature"] * 5])
        text = right[part] or ""
        place = chance.randrange(len(text) + 1)
        other = chance.choice([char for char in "0123456789abcdefz:, é" if char != text[place : place + 1]])
        changed = text[:place] + other + text[place + chance.choice((0, 1)) :]
        if chance.random() < 0.2 and place < len(text):
            changed = text[:place] + text[place + 1 :]
        if changed == text or not (changed or part != "tenant"):
            continue
        tried += 1
        assert read(attacker, {**right, part: changed}, "SELECT rag.scope_verified()") == REFUSED, (part, text, changed)
    assert tried > 50


def test_the_keys_are_read_by_nobody_who_searches_or_ingests(
    world: Database, attacker: psycopg.Connection[Any]
) -> None:
    for table in ("scope_keys", "scope_signing"):
        assert read(attacker, rightly(), f"SELECT * FROM rag.{table}") == "42501"
        assert read(attacker, rightly(), f"INSERT INTO rag.{table} DEFAULT VALUES") == "42501"
        assert read(attacker, rightly(), f"SELECT * FROM pg_stats WHERE tablename = '{table}'") == []
        with world.connect("ingest") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM rag.{table}")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [
        "SET ROLE rag_ingest",
        "SET ROLE rag_owner",
        "SET ROLE rag_search",
        "SELECT set_config('role', 'rag_ingest', true)",
        "SET SESSION AUTHORIZATION rag_ingest_login",
        "CREATE FUNCTION pg_temp.leak() RETURNS SETOF rag.knowledge_sources LANGUAGE sql SET role = rag_ingest "
        "AS 'SELECT * FROM rag.knowledge_sources'; SELECT * FROM pg_temp.leak()",
    ],
)
def test_the_role_that_needs_no_signature_cannot_be_taken(attacker: psycopg.Connection[Any], words: str) -> None:
    assert read(attacker, scope(), words) in ("42501", "22023")  # not permitted


def test_tables_functions_and_operators_of_the_session_are_not_looked_at(
    world: Database, attacker: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(world.url) as owner:  # at worst
        owner.execute(sql.SQL("GRANT TEMPORARY ON DATABASE {} TO rag_app").format(sql.Identifier(owner.info.dbname)))
    attacker.execute("CREATE TEMP TABLE scope_signing (only_one boolean)")
    attacker.execute(
        "CREATE TEMP TABLE scope_keys (id text, inner_block bytea, outer_block bytea, retired_at timestamptz)"
    )
    attacker.execute("INSERT INTO scope_keys VALUES ('key-1', repeat('6', 64)::bytea, repeat('x', 64)::bytea)")
    for function, kind in (("sha256(bytea)", "bytea"), ("encode(bytea, text)", "text"), ("length(text)", "int")):
        attacker.execute(
            f"CREATE FUNCTION pg_temp.{function} RETURNS {kind} LANGUAGE sql IMMUTABLE AS 'SELECT NULL::{kind}'"  # type: ignore[arg-type]
        )
    attacker.execute("CREATE FUNCTION pg_temp.never(bytea, bytea) RETURNS bool LANGUAGE sql AS 'SELECT false'")
    attacker.execute("CREATE OPERATOR pg_temp.<> (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = pg_temp.never)")
    attacker.execute("CREATE FUNCTION pg_temp.scope_verified() RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    for path in ("pg_temp, pg_catalog, rag, public", "pg_temp, rag, public", "rag"):
        attacker.execute(f"SET search_path = {path}")  # type: ignore[arg-type]
        attacker.commit()
        for call in (SOURCES, f"SELECT * FROM {CALLS['search']}"):
            assert read(attacker, {**scope(), "signature": "0" * 64, "key": KEY.id}, call) == REFUSED
        assert len(read(attacker, rightly(), SOURCES)) == 9


def test_a_statement_that_was_prepared_under_a_scope_is_verified_under_the_next(
    attacker: psycopg.Connection[Any],
) -> None:
    for mode in ("force_generic_plan", "force_custom_plan"):
        attacker.execute(f"SET plan_cache_mode = {mode}")  # type: ignore[arg-type]
        with attacker.transaction():
            set_scope(attacker, rightly())
            attacker.execute(f"PREPARE {mode} AS {SOURCES}")  # type: ignore[arg-type]
            assert len(attacker.execute(f"EXECUTE {mode}").fetchall()) == 9  # type: ignore[arg-type]
        assert read(attacker, {}, f"EXECUTE {mode}") == []
        assert read(attacker, scope(), f"EXECUTE {mode}") == REFUSED
        assert len(read(attacker, rightly("alpha", "sales"), f"EXECUTE {mode}")) == 1


@pytest.mark.parametrize("change", ["rag.user=ann", "rag.bot=sales", "rag.tenant=beta"])
@pytest.mark.parametrize("way", ["rows", "join", "function"])
def test_a_statement_that_changes_its_scope_while_it_reads_gets_no_row_of_another_one(
    attacker: psycopg.Connection[Any], change: str, way: str
) -> None:
    name, value = change.split("=")
    setting = f"set_config('{name}', '{value}', true)"
    statement = {
        "rows": f"SELECT {setting}, s.* FROM rag.knowledge_sources s",
        "join": "SELECT t.* FROM rag.knowledge_sources s, "
        f"LATERAL (SELECT {setting} AS x WHERE s.id IS NOT NULL OFFSET 0) c, "
        "LATERAL (SELECT * FROM rag.knowledge_sources k WHERE c.x IS NOT NULL OFFSET 0) t",
        "function": f"SELECT {setting}, rag.scope_verified(), (SELECT array_agg(d.text) FROM rag.source_documents d)",
    }[way]
    own = read(attacker, rightly(), SOURCES)
    found = read(attacker, rightly(), statement)
    names = {row.name for row in _named(attacker, rightly(), SOURCES)}
    assert len(own) == len(names) == 9
    assert found == REFUSED or (way == "rows" and len(found) == 9)
    assert not any(word in str(found) for word in (TENANTS["beta"], "SALES", "note9"))


def _named(connection: psycopg.Connection[Any], settings: Any, statement: Any) -> list[Any]:
    with connection.transaction(), connection.cursor(row_factory=psycopg.rows.namedtuple_row) as cursor:
        set_scope(connection, settings)
        return cursor.execute(statement).fetchall()


def test_the_parts_of_two_signed_scopes_cannot_be_mixed(attacker: psycopg.Connection[Any]) -> None:
    other = dict(rightly("beta", "sales", "ann"))
    switch = " AND ".join(f"set_config('rag.{part}', '{value}', true) IS NOT NULL" for part, value in other.items())
    for table in ("knowledge_sources", "knowledge_chunks", "source_documents", "knowledge_spaces"):
        for order in (
            f"SELECT t.* FROM rag.knowledge_spaces k, LATERAL (SELECT {switch} AS x WHERE k.id IS NOT NULL OFFSET 0) c,"
            f" LATERAL (SELECT * FROM rag.{table} WHERE c.x OFFSET 0) t",
            f"SELECT t.*, {switch} FROM rag.{table} t",
        ):
            found = read(attacker, rightly(), order)
            assert isinstance(found, list)
            for row in found:
                ids = {cell for cell in row if cell in ("alpha", "beta", BOT, "sales")}
                assert ids in ({"alpha", BOT}, {"alpha"}, {"beta", "sales"}, {"beta"}), (
                    table,
                    row,
                )  # or what is shared
            assert "note9" not in str(found)


def test_every_policy_of_the_app_asks_for_the_whole_scope_at_once(world: Database) -> None:
    """Asked for part by part, or for each row, it could be of two scopes, and is verified for each row."""
    policies = catalogue(
        world, "SELECT polrelid::regclass || ' ' || pg_get_expr(polqual, polrelid) FROM pg_policy "
        "WHERE 'rag_app'::regrole = ANY (polroles) AND polqual IS NOT NULL"
    )  # fmt: skip
    assert len(policies) > 20
    for policy in policies:
        assert "scope_tenant()" in policy, policy
        asked = r"""(?:rag\.\w+\(\)|COALESCE\(rag\.\w+\(\), ''::text\)) AS "?\w+"?,?\s*"""
        outside = re.sub(rf"\( SELECT (?:{asked})+\)", "", policy)
        assert not re.search(r"scope_(tenant|bot|user)\(\)|shared_bot\(\)", outside), policy


def test_workers_of_one_statement_see_the_scope_that_was_signed(attacker: psycopg.Connection[Any]) -> None:
    attacker.execute("SET debug_parallel_query = on")
    attacker.commit()
    assert len(read(attacker, rightly(), SOURCES)) == 9
    assert read(attacker, scope(), SOURCES) == REFUSED


def test_a_signature_holds_until_its_second_and_for_statements_that_begin_before(
    attacker: psycopg.Connection[Any],
) -> None:
    short = signed(KEY, "alpha", BOT, "", 2)
    attacker.execute("SELECT 1")  # a transaction that lasts longer
    set_scope(attacker, scope(signed=short))
    assert len(attacker.execute(SOURCES).fetchall()) == 9
    slow = f"SELECT x FROM (SELECT pg_sleep(3.2) AS x OFFSET 0) z, LATERAL ({SOURCES} WHERE z.x IS NOT NULL OFFSET 0) s"
    assert len(attacker.execute(slow).fetchall()) == 9
    with pytest.raises(psycopg.DatabaseError, match="expired") as refused:
        attacker.execute(SOURCES)
    assert refused.value.sqlstate == REFUSED


def test_a_signature_made_elsewhere_says_what_it_was_made_for() -> None:
    made = sign_scope("alpha", BOT, key=KEY, seconds=60)
    assert isinstance(made, ScopeSignature)
    assert made.signature not in repr(made)
    assert 58 <= made.expires - time.time() <= 60
