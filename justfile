# The commands of this repository. `just` lists them.

python := ".venv/bin/python"

# What the environment has installed is found, whether it is activated or not.
export PATH := justfile_directory() + "/.venv/bin:" + env("PATH")

_default:
    @just --list

# Run the tests, or those of some folders: just test tests/acel
test *folders:
    {{ python }} -m pytest {{ folders }}

# Look for examples that the properties have not seen: for a nightly run
explore *folders:
    {{ python }} -m pytest --hypothesis-profile explore --hypothesis-show-statistics {{ folders }}

# Run the tests with the lowest versions that are declared, in an environment of its own
lowest *folders:
    uv venv --quiet --clear --python 3.11 build/lowest
    uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct -e '.[all,test]'
    build/lowest/bin/python -m pytest {{ folders }}

# Check style and types
lint:
    {{ python }} -m ruff check .
    {{ python }} -m ruff format --check .
    {{ python }} -m mypy

# Build the pages and the API reference into build/site
docs:
    {{ python }} -m sphinx --quiet --fail-on-warning --keep-going -b html docs build/site

# Take the pictures of docs/console.md anew; needs Chromium
screenshots:
    {{ python }} -m tests.console.screenshots docs/images

# Write the published schema of rules files anew, from the templates
schema:
    {{ python }} -m tests.acel.rulesfile.schema openbox_agentrt/acel/rulesfile/rules.schema.json

# Print the figures of docs/performance.md, or some of them: just bench gate
bench *parts:
    {{ python }} -m benchmarks {{ parts }}

# Run what a release has to pass, from a clean clone
ci:
    bash .ci/run
