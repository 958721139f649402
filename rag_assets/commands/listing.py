"""Every command of `rag`, in the order of its help, with the first paragraph of its docstring."""

from __future__ import annotations

from typer.core import TyperCommand, TyperGroup

from rag_assets.commands.lazy import LazyCommand, group

_Row = tuple[str, str, str]  # name, `module:function`, summary
_COMMANDS: tuple[_Row, ...] = (
    ("up", "server:up", "Start the database if need be and bring its schema up to date. Safe to repeat."),
    (
        "down",
        "server:down",
        "Stop the embedded database of RAG_HOME. A server that DATABASE_URL names is left alone.",
    ),
    (
        "config",
        "config:config",
        "Show every setting: what it is now, where that comes from, and what it means. Needs no database.",
    ),
    (
        "plan",
        "plan:plan",
        "Tell what building a profile would take and cost, before anything is paid; writes and sends nothing.",
    ),
    ("ingest", "ingest:ingest", "Bring what a bot knows up to date with its sources."),
    ("batches", "batches:batches", "List a tenant's batch jobs, or cancel one."),
    ("usage", "usage:usage", "Show what embedding has cost a tenant, and how much of it the cache has saved."),
    (
        "inspect",
        "inspect:inspect",
        "Show what the parser sees in files, and where chunks begin and end. Needs no database.",
    ),
    ("sources", "sources:sources", "List a bot's sources with their state, in each of its profiles."),
    (
        "forget",
        "forget:forget",
        "Take one source out of all profiles of a bot now, and do not read it again until it changes.",
    ),
    ("search", "search:search", "Search what a bot knows; nothing of another tenant or bot is ever returned."),
    (
        "push",
        "push:push",
        "Keep a document for a bot, without a file to come from; the next ingest reads it as any source.",
    ),
    ("mcp", "mcp:mcp", "Serve an agent the knowledge of one bot over the Model Context Protocol."),
    (
        "compare",
        "compare:compare",
        "Show two profiles or retrievers side by side, with what differs between their answers.",
    ),
    (
        "promote",
        "rollout:promote",
        "Let a candidate serve the bot, if the newest verdict on it has passed and still holds.",
    ),
    (
        "rollback",
        "rollout:rollback",
        "Go back to the profile that served before the last promotion. Nothing is built, so it is instant.",
    ),
    ("canary", "rollout:canary", "Let a share of requests be answered by another profile than the active one."),
    (
        "events",
        "rollout:events",
        "List what happened to a bot's profiles: created, ready, promoted, forced, rolled back, and by whom.",
    ),
    (
        "erase",
        "erase:erase",
        "Remove everything of a tenant, or of one bot of it: rows, staged files and Dagster's records.",
    ),
    (
        "completion",
        "completion:completion",
        "Print, or install, what makes a shell complete commands and options with the tab key.",
    ),
    (
        "serve",
        "serve:serve",
        "Answer searches over HTTP, each with a token of `rag token add`; Ctrl-C ends it.",
    ),
    ("dev", "dev:dev", "Run the Dagster UI and daemon, with the database up and the sensors on; Ctrl-C ends it."),
)
_GROUPS: tuple[tuple[str, str, tuple[_Row, ...]], ...] = (  # name, summary, commands
    (
        "tenant",
        "Tenants and their bots.",
        (
            ("add", "catalogue:add_tenant", "Create a tenant, and a bot of it. Safe to repeat."),
            ("list", "catalogue:list_tenants", "List all tenants with their bots."),
            (
                "limit",
                "limits:tenant_limit",
                "Limit how fast a tenant, or all of them together, may embed; without a number, show the limits.",
            ),
        ),
    ),
    (
        "root",
        "Source roots: the folders, files and addresses that a bot's sources come from. `rag ingest PATH` adds one.",
        (
            (
                "list",
                "roots:list_command",
                "List the source roots of a tenant's bots: when each was looked at, what is there, and what is wrong.",
            ),
            ("show", "roots:show", "Show what a root was told, what its last scan found, and what is held back of it."),
            ("set", "roots:set_command", "Change what a root was told; what is not named stays."),
            (
                "move",
                "roots:move",
                "Say that a root lies somewhere else now: its sources keep their ids, and nothing is embedded again.",
            ),
            (
                "confirm",
                "roots:confirm",
                "Say that what is held back of a root has gone on purpose: it is withdrawn.",
            ),
            (
                "remove",
                "roots:remove",
                "Forget a root, and withdraw its sources, but for those that lie under another root of the bot.",
            ),
        ),
    ),
    (
        "scope-key",
        "Signed scopes: who has only the application's login reads nothing.",
        (
            (
                "add",
                "scope_key:add",
                "Let the database verify scopes with a key: that of RAG_SCOPE_KEY, or else a new one, which is shown.",
            ),
            (
                "list",
                "scope_key:list_command",
                "List the keys that the database verifies scopes with, and whether scopes have to be signed.",
            ),
            (
                "retire",
                "scope_key:retire",
                "Refuse scopes that are signed with a key, from now on. Applications sign with another one before.",
            ),
            (
                "on",
                "scope_key:on",
                "Refuse scopes that are not signed: whoever has only the application's login reads nothing.",
            ),
            ("off", "scope_key:off", "Take scopes that are not signed again. Keys stay as they are."),
        ),
    ),
    (
        "graph",
        "Triples: what texts say of what, which a graph retriever walks along.",
        (
            (
                "import",
                "graph:import_command",
                "Take triples from a file of JSON lines, CSV or TSV, and find where each one is said.",
            ),
            ("list", "graph:list_command", "List a bot's triples, with where each one is said."),
            ("show", "graph:show", "Show what is said of one entity, as subject and as object."),
            ("clear", "graph:clear", "Delete a bot's triples, or those of one source. Chunks and texts stay."),
        ),
    ),
    (
        "profile",
        "Embedding profiles: how text becomes vectors.",
        (
            ("list", "catalogue:list_profiles", "List the profiles that any bot may be ingested with."),
            (
                "show",
                "catalogue:show_profile",
                "Show everything that one profile fixes, and for which bots its hybrid search was tuned.",
            ),
            (
                "diff",
                "catalogue:diff_profiles",
                "Show in what two profiles differ. Without a difference their chunks, vectors and indexes are equal.",
            ),
            (
                "add",
                "profile_add:add_profile",
                "Add a profile to the catalogue. It is built for a bot by: rag ingest --profile NAME.",
            ),
            (
                "upgrade",
                "profile_upgrade:upgrade",
                "Make a candidate that is like a profile, with the newest terms: the words that lexical search finds a "
                "text by.",
            ),
            (
                "retire",
                "retire:retire",
                "Take a profile of a bot out of use. Its chunks stay until `rag profile drop-retired`.",
            ),
            (
                "drop-retired",
                "retire:drop_retired",
                "Drop the chunks of a bot's retired profiles after their soak time.",
            ),
            (
                "limit",
                "limits:profile_limit",
                "Set what a profile may cost and how its documents are sent; without an option, show it.",
            ),
        ),
    ),
    (
        "log",
        "The query log: what was asked, where the application searches with RAG_QUERY_LOG=1.",
        (
            (
                "show",
                "query_log:show",
                "Show what was asked, the newest first: masked queries, what was found, how long it took, and what was "
                "said of it.",
            ),
            (
                "export",
                "query_log:export",
                "Write the log as JSON lines, oldest first: queries with their results, citations and feedback.",
            ),
            (
                "purge",
                "query_log:purge",
                "Delete entries of the log: what is older than it is to be kept, or what one user has asked.",
            ),
        ),
    ),
    (
        "token",
        "Tokens of `rag serve`: who may come in, as which bot of which tenant, and what they may do.",
        (
            (
                "add",
                "tokens:add",
                "Make a token for `rag serve`: whoever has it asks as one bot of one tenant. It is shown once.",
            ),
            (
                "list",
                "tokens:list_command",
                "List tokens, with what each may do, and whether it is active, expired or revoked. None is shown "
                "itself.",
            ),
            (
                "revoke",
                "tokens:revoke",
                "Take a token back: it is refused from now on, by servers that run within 5 seconds.",
            ),
        ),
    ),
    (
        "eval",
        "Labelled queries: measure profiles, and judge candidates by them.",
        (
            (
                "import",
                "evaluate:import_command",
                "Ingest a labelled collection, and keep its queries and labels as what the bot is measured by.",
            ),
            (
                "run",
                "evaluate:run",
                "Put every labelled query to one profile, and measure what comes back and how long it takes.",
            ),
            (
                "gate",
                "gate:gate",
                "Measure a candidate beside the baseline and judge it: exit code 0 passed, 1 refused, 2 could not be "
                "judged.",
            ),
            (
                "report",
                "evaluate:report",
                "Write tables, bars and the queries won and lost. The runs are recorded; no verdict is.",
            ),
            (
                "sweep",
                "sweep:sweep",
                "Measure profiles in every mode, and by retrievers, side by side in one table. All runs are recorded.",
            ),
            (
                "tune",
                "sweep:tune",
                "Find the weight of meaning in hybrid search on one half of the queries, and report the other half.",
            ),
        ),
    ),
)


def listed() -> list[TyperCommand | TyperGroup]:
    """All commands and groups, none of them imported."""
    groups = [group(name, summary, *(LazyCommand(*row) for row in rows)) for name, summary, rows in _GROUPS]
    return [*(LazyCommand(*row) for row in _COMMANDS), *groups]
