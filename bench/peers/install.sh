#!/bin/sh
# The peers get an environment of their own: their pins must never constrain the product's.
# Usage: bench/peers/install.sh [PYTHON]   (PYTHON: an interpreter of 3.11 or later, default python3)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
venv="$root/.venv-bench"
[ -x "$venv/bin/python" ] || "${1:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$root/bench/peers/requirements.txt"
