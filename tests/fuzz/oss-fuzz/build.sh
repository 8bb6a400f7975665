#!/bin/bash -eu
# Makes a fuzzer of each target, with its valid documents and its corpus as seeds.
python3 -m pip install '.[cluster]'
targets=$(python3 -c 'from tests.fuzz.targets import TARGETS; print(*TARGETS)')
for target in $targets; do
    cat >"fuzz_$target.py" <<PYTHON
import sys

import atheris

with atheris.instrument_imports(include=["eventsched"]):
    from tests.fuzz.targets.$target import fuzz_one

atheris.Setup(sys.argv, fuzz_one)
atheris.Fuzz()
PYTHON
    # The targets read their documents, and one the examples of records.
    compile_python_fuzzer "fuzz_$target.py" --paths . \
        --add-data "tests/fuzz/documents:tests/fuzz/documents" \
        --add-data "tests/contract/records-golden.jsonl:tests/contract" \
        --collect-submodules eventsched --collect-submodules tests.fuzz
    folders=()
    for folder in "tests/fuzz/corpus/$target" "tests/fuzz/documents/$target"; do
        if [ -d "$folder" ]; then folders+=("$folder"); fi
    done
    zip -q -r -j "$OUT/fuzz_${target}_seed_corpus.zip" "${folders[@]}"
done
