"""What a source root was told: what of it is read, how, and how often it is looked at."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class RootOptions(BaseModel):
    """Options of one root, remembered with it.

    Attributes:
        include: patterns as in a `.gitignore`, over paths relative to the root; where there are any, only what one of
            them matches is read.
        exclude: patterns of what is left out, stronger than `include`.
        gitignore: `.gitignore` files below the root count like `.ragignore` files, which always do.
        all_folders: folders that programs fill (`node_modules`, build outputs and the like) are read too.
        noindex: web pages that ask robots not to index them are read all the same: one's own site.
        encoding: of text files that do not say theirs; None to find out.
        interval_s: seconds between two looks at the root; None for the default of its kind.
        max_loss_percent: where more of the root's sources are gone at once, they are kept until somebody says that they
            have gone; 100 to believe every scan.
        visibility: who sees its sources: all users of the `bot`, or the one `user` alone.
        user: whose they are, with visibility `user`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    gitignore: bool = False
    all_folders: bool = False
    noindex: bool = False
    encoding: str | None = None
    interval_s: int | None = Field(default=None, ge=5)
    max_loss_percent: int = Field(default=50, ge=0, le=100)
    visibility: Literal["bot", "user"] = "bot"
    user: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _user_is_named(self) -> RootOptions:
        if (self.visibility == "user") != (self.user is not None):
            raise ValueError("visibility 'user' and a user go together")
        return self

    def reads_like(self, other: RootOptions) -> bool:
        """Whether the same bytes are the same documents with both."""
        return (self.noindex, self.encoding) == (other.noindex, other.encoding)


DEFAULT_OPTIONS = RootOptions()
