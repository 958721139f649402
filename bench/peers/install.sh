#!/bin/sh
# The peers get environments of their own: their pins must never constrain the product's, nor each other's.
# Usage: bench/peers/install.sh [PYTHON]   (PYTHON: an interpreter of 3.11 or later, default python3)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
for name in "" -langchain -haystack -cocoindex; do
    venv="$root/.venv-bench$name"
    [ -x "$venv/bin/python" ] || "${1:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$root/bench/peers/requirements$name.txt"
done
