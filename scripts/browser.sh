#!/bin/sh
# Gets what the tests in a browser need: Playwright for the Python that is named, and a Chromium if the system has none.
#
# usage: scripts/browser.sh PYTHON
set -eu
python=$1

"$python" -c 'import playwright' 2>/dev/null || "$python" -m pip install --disable-pip-version-check -e ".[site]"
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit
done
if command -v apt-get >/dev/null; then
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    $sudo apt-get update && $sudo apt-get install -y --no-install-recommends chromium
else
    "$python" -m playwright install chromium
fi
