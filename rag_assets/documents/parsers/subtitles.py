"""Subtitles (SubRip, WebVTT): what is said, and when."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Record
from rag_assets.documents.names import charset
from rag_assets.documents.normalize import normalize
from rag_assets.errors import ParseError

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_TIMING = re.compile(rf"^\s*{_TIME}\s*-->\s*{_TIME}")
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?\s+([^>]*)>")
_MARKUP = re.compile(r"</?[a-zA-Z0-9][^<>]*>|\{\\[^{}]*\}|<>")
_SENTENCE_END = re.compile("[.!?…。！？:\"'”’)\\]♪]\\s*$")
_PAUSE = 2.0  # seconds of silence after a sentence that begin a new paragraph
_PARAGRAPH = 600  # characters after which a sentence's end is a paragraph's end


@dataclass(frozen=True)
class _Cue:
    start: float  # seconds
    end: float
    lines: tuple[str, ...]
    voice: str = ""


def parse_subtitles(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse SubRip or WebVTT.

    Lines that belong together become paragraphs. `metadata["cues"]` lists [offset in the text, start, end] of
    each cue, in seconds.

    Raises:
        ParseError: binary content, or no line with a time in it.
    """
    text = normalize(decode(data, charset(content_type)))
    cues = list(_cues(text))
    if not cues and not text.startswith("WEBVTT") and not any(map(_TIMING.match, text.split("\n"))):
        raise ParseError("the file has no line such as 00:00:01,000 --> 00:00:02,000: these are no subtitles")
    builder = TextBuilder()
    timings = [timing for group in _groups(_without_repeats(cues)) for timing in _add(builder, group)]
    kind = "text/vtt" if text.lstrip().startswith("WEBVTT") else "application/x-subrip"
    document = builder.document(content_type=kind, metadata={"cues": timings})
    return whole_file(document, name, "the subtitles say nothing")


def _cues(text: str) -> Iterator[_Cue]:
    for block in re.split(r"\n[^\S\n]*\n\s*", text):
        lines = block.strip("\n").split("\n")
        place = next((number for number, line in enumerate(lines[:3]) if _TIMING.match(line)), None)
        if place is None:
            continue
        timing = _TIMING.match(lines[place])
        assert timing is not None
        start, end = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:])
        voice = _VOICE.search("\n".join(lines[place + 1 :]))
        spoken = tuple(line for raw in lines[place + 1 :] if (line := _plain(raw)))
        if spoken:
            yield _Cue(start, end, spoken, voice.group(1).strip() if voice else "")


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(fraction.ljust(3, "0")) / 1000


def _plain(line: str) -> str:
    return " ".join(html.unescape(_MARKUP.sub("", line)).split())


def _without_repeats(cues: list[_Cue]) -> Iterator[_Cue]:
    """Yield the cues without the lines that roll up from the cue before, as in automatic captions."""
    before: tuple[str, ...] = ()
    for cue in cues:
        count = next((n for n in range(min(len(before), len(cue.lines)), 0, -1) if before[-n:] == cue.lines[:n]), 0)
        before = cue.lines
        # A short cry said twice is no roll-up: only then are all lines of a cue the same as before.
        if count == len(cue.lines) and len(" ".join(cue.lines)) < 10:
            count = 0
        if cue.lines[count:]:
            yield _Cue(cue.start, cue.end, cue.lines[count:], cue.voice)


def _groups(cues: Iterator[_Cue]) -> Iterator[list[_Cue]]:
    group: list[_Cue] = []
    length = 0
    for cue in cues:
        last = group[-1] if group else None
        if last and (cue.voice != last.voice or _ended(last, cue, length)):
            yield group
            group, length = [], 0
        group.append(cue)
        length += sum(len(line) + 1 for line in cue.lines)
    if group:
        yield group


def _ended(last: _Cue, cue: _Cue, length: int) -> bool:
    pause = cue.start - last.end
    finished = bool(_SENTENCE_END.search(last.lines[-1]))
    return (finished and (pause >= _PAUSE or length >= _PARAGRAPH)) or pause >= 5 * _PAUSE


def _add(builder: TextBuilder, group: list[_Cue]) -> Iterator[list[float]]:
    voice = group[0].voice
    lines = [f"{voice}:"] if voice else []
    offsets, length = [], len(voice) + 2 if voice else 0
    for cue in group:
        said = normalize(" ".join(cue.lines))
        offsets.append(length)
        lines.append(said)
        length += len(said) + 1
    text = f"{lines[0]} " + "\n".join(lines[1:]) if voice else "\n".join(lines)
    builder.add("paragraph", text)
    start = builder.blocks[-1].start
    for cue, offset in zip(group, offsets, strict=True):
        yield [start + offset, cue.start, cue.end]
