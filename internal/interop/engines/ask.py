"""Answers requests of the tests: one JSON object a line on standard input, one a line on the standard output it was started with.

A request {"run": source} runs Python in a namespace that the engines have filled. The answer has what the source put into the
variable `result`, or the error as text.
"""
import json
import os
import sys
import traceback

LAKE = json.loads(os.environ["INTEROP_LAKE"])


def serve(namespace):
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print(json.dumps({"result": "ready"}), file=answers, flush=True)
    for line in sys.stdin:
        namespace["result"] = None
        try:
            exec(json.loads(line)["run"], namespace)
            answer = {"result": namespace["result"]}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), file=answers, flush=True)


def texts(rows):
    """Rows as sorted lines of text, the same for the same values."""
    return sorted(repr(row) for row in rows)
