#!/bin/sh
# Make the virtual environment $1 with $PYTHON, or say the one command that mends what is missing.
set -eu
venv=$1
python=${PYTHON:-python3}

if [ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "Rushlight needs Python 3.11 or newer; $python is $("$python" -V 2>&1)." >&2
    echo "Name another one: make ... PYTHON=python3.12" >&2
    exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if "$python" -m venv "$venv" >"$log" 2>&1; then
    exit 0
fi
# Debian and Ubuntu ship python3 without its venv module.
rm -rf "$venv"
if "$python" -m virtualenv --version >/dev/null 2>&1; then
    exec "$python" -m virtualenv --quiet "$venv"
fi
if command -v virtualenv >/dev/null 2>&1; then
    exec virtualenv --quiet --python "$python" "$venv"
fi
cat "$log" >&2
echo >&2
echo "No virtual environment could be made. On Debian or Ubuntu this mends it:" >&2
echo "    apt install python3-venv" >&2
exit 1
