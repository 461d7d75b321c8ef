from __future__ import annotations

import pytest

from agentcompass.benchmarks.humaneval_code import candidates

PROMPT = (
    "from typing import List\n\n\ndef helper(n):\n    return n + 1\n\n\n"
    'def target(n: int) -> List[int]:\n    """Say def target(n) again."""\n'
)
BODY = "    if n:\n        return [helper(n)]\n    return []\n"
WHOLE = "def target(n):\n" + BODY


def result_of(answer: str) -> object:
    """Run the first candidate that compiles, as the runner does, and call it."""
    for source in candidates(PROMPT, "target", answer):
        try:
            code = compile(source, "solution", "exec")
        except SyntaxError:
            continue
        names: dict[str, object] = {}
        exec(code, names)
        target = names["target"]
        assert callable(target)
        return target(1)
    return "nothing compiles"


@pytest.mark.parametrize(
    "answer",
    [
        BODY,
        BODY.strip(),
        "if n:\n    return [helper(n)]\nreturn []\n",
        "for i in [n]:\n    return [helper(i)]\n",
        "return [helper(n)]",
        WHOLE,
        PROMPT + BODY,
        f"```python\n{WHOLE}```",
        f"```\n{BODY}```",
        f"~~~py\n{WHOLE}~~~",
        f"Text\n\n````python\n{WHOLE}````\nmore text",
        f"```python\n{WHOLE}",  # cut off before the fence was closed
        f"```python\nprint('example')\n```\n\n```python\n{WHOLE}```\n```bash\npip install x\n```",
        f"```python\ndef target(n):\n    return [0]\n```\nBetter:\n```python\n{WHOLE}```",
        f"  - Item:\n    ```python\n    {WHOLE.replace(chr(10), chr(10) + '    ')}\n    ```",
        f"Here is the function:\n\n{WHOLE}",
        f"Here is the function:\n\n{WHOLE}\nIt works because of the helper's increment.",
        f"<think>def target(n): return None</think>{WHOLE}",
        f"I think so: def target(n)</think>\n```python\n{WHOLE}```",
        f"```python\nfrom __future__ import annotations\n{WHOLE}```",
        f"```python\nimport os\n\n{WHOLE}\n\nassert target(1) == [2]\n```",
    ],
)
def test_a_solution_is_found_however_it_is_wrapped(answer: str) -> None:
    assert result_of(answer) == [2]


@pytest.mark.parametrize("answer", ["", "\n\n", "I cannot do that.", "```python\n```", "```"])
def test_what_holds_no_solution_still_makes_a_program(answer: str) -> None:
    assert candidates(PROMPT, "target", answer)


def test_the_prompts_helpers_stay_with_a_whole_function() -> None:
    assert "def helper" in candidates(PROMPT, "target", WHOLE)[0]
