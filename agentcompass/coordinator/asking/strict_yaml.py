"""YAML in which nothing is guessed: no duplicate and no non-text keys, dates stay text."""

from __future__ import annotations

from collections.abc import Hashable

import yaml


def load(text: str) -> object:
    """Return what a document says; ValueError, with the line, if it is not one of ours."""
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506  a SafeLoader, only stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        reason = str(error) if mark is None else f"{error.problem} in line {mark.line + 1}"
        raise ValueError(reason) from error
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML that refuses duplicate and non-text keys, and leaves dates as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own way to configure a loader
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's signature
    ) -> dict[Hashable, object]:
        names: set[str] = set()
        for key_node, _ in node.value:
            name = self.construct_object(key_node, deep=True)
            problem = "a field name that is not text" if not isinstance(name, str) else ""
            if isinstance(name, str) and name in names:
                problem = f"the field {name!r} is given twice"
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            names.add(name)
        content: dict[Hashable, object] = super().construct_mapping(node, deep)
        return content
