"""Who is written down as having done something: the person, not the login of the database."""

from __future__ import annotations

import os
import pwd

from rag_assets.settings import read_variable

MAX_ACTOR_CHARS = 200


def current_actor() -> str:
    """`RAG_ACTOR`, or else the name of the operating system's user, without control characters."""
    name = read_variable("RAG_ACTOR") or _os_user()
    return "".join(char if char.isprintable() else " " for char in name).strip()[:MAX_ACTOR_CHARS] or "unknown"


def _os_user() -> str:
    # Not `getpass.getuser`: it believes the environment, and this has a variable of its own for that.
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's user without an entry
        return f"uid {os.geteuid()}"
