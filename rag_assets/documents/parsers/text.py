"""Plain text and source code."""

from __future__ import annotations

from rag_assets.documents.building import paragraphs, whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Document, Record
from rag_assets.documents.names import charset, suffix
from rag_assets.documents.normalize import normalize
from rag_assets.documents.quality import figures

TEXT_SUFFIXES = (".txt", ".log", ".text", ".me", ".nfo", ".wiki", ".mediawiki", ".textile", ".po", ".bib")
_CODE = {
    "text/x-python": "py pyi pyx pyw",
    "text/javascript": "js mjs cjs jsx",
    "text/x-typescript": "ts mts cts tsx",
    "text/x-go": "go",
    "text/x-java": "java",
    "application/sql": "sql ddl",
    "text/x-shellscript": "sh bash zsh fish ksh",
    "application/yaml": "yaml yml",
    "application/toml": "toml",
    "text/x-ini": "ini cfg conf cnf properties desktop service editorconfig",
    "text/x-rust": "rs",
    "text/x-c": "c h",
    "text/x-c++": "cpp hpp cc hh cxx hxx ino",
    "text/x-ruby": "rb rake gemspec",
    "application/x-php": "php",
    "text/css": "css scss sass less",
    "text/x-kotlin": "kt kts",
    "text/x-csharp": "cs csx",
    "text/x-swift": "swift",
    "text/x-scala": "scala sc",
    "text/x-groovy": "groovy gradle",
    "text/x-vue": "vue svelte astro",
    "text/x-terraform": "tf hcl bicep nix",
    "text/x-objectivec": "m mm",
    "text/x-perl": "pl pm",
    "text/x-lua": "lua",
    "text/x-r": "r jl",
    "text/x-dart": "dart",
    "text/x-elixir": "ex exs erl hrl",
    "text/x-haskell": "hs lhs elm ml mli fs fsx",
    "text/x-lisp": "clj cljs cljc edn el lisp scm rkt",
    "text/x-vb": "vb vbs bas",
    "text/x-powershell": "ps1 psm1 bat cmd",
    "text/x-zig": "zig nim v d cr sol",
    "text/x-fortran": "f f90 f95 for pas cob cbl adb ads",
    "text/x-asm": "asm s",
    "text/x-hdl": "vhd vhdl sv",
    "text/x-makefile": "mk mak cmake bzl bazel",
    "text/x-protobuf": "proto thrift avdl graphql gql",
    "text/x-template": "jinja j2 tmpl tpl erb hbs ejs pug haml liquid mustache",
    "text/x-script": "awk sed tcl applescript rego jsonnet cue json5 jsonc",
    "text/x-diff": "diff patch",
    "text/x-tex-class": "sty cls dtx ins",
}
CODE_TYPES = {f".{suffix}": kind for kind, suffixes in _CODE.items() for suffix in suffixes.split()}
# Files of code that go by their names; what follows a dot, as in `Dockerfile.dev`, is which one of them it is.
CODE_NAMES = frozenset({
    "dockerfile", "containerfile", "makefile", "gnumakefile", "jenkinsfile", "procfile", "vagrantfile", "gemfile",
    "rakefile", "brewfile", "podfile", "justfile", "earthfile", "tiltfile", "caddyfile", "snakefile", "build",
    "workspace", "codeowners",
})  # fmt: skip


def parse_text(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse prose; a block is a paragraph. Raises ParseError for binary content."""
    decoded = decode(data, charset(content_type))
    text = normalize(decoded)
    counts = figures(characters_in=len(decoded))
    return whole_file(Document(text=text, blocks=paragraphs(text), metadata=counts), name)


def parse_code(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse source code; a block is a run of lines without a blank one. Raises ParseError if it is binary."""
    decoded = decode(data, charset(content_type))
    text = normalize(decoded)
    kind = CODE_TYPES.get(suffix(name), "text/plain")
    counts = figures(characters_in=len(decoded))
    # The path is what a reader calls a file of code, and what a model reads in front of its parts.
    document = Document(text, normalize(name), kind, blocks=paragraphs(text, "code"), metadata=counts)
    return whole_file(document, name)
