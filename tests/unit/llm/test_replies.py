from __future__ import annotations

import json

import pytest

from agentcompass.llm.base import CallFailed
from agentcompass.llm.replies import kind_of, read_reply, server_words


def a_body(message: object, **more: object) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"model": "m-1", "choices": [choice], **more}).encode()


def test_text_counts_and_names_are_read() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 0, "details": {"cached_tokens": 3}}

    reply = read_reply(a_body({"content": "42"}, usage=usage), request_id="r-1")

    assert (reply.content, reply.finish_reason, reply.served_model) == ("42", "stop", "m-1")
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 0)
    assert (reply.usage, reply.request_id) == (usage, "r-1")


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_the_answer(key: str) -> None:
    reply = read_reply(a_body({"content": "42", key: "six by seven"}))

    assert (reply.content, reply.reasoning) == ("42", "six by seven")


def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "4"}, {"type": "image"}, {"type": "text", "text": "2"}]

    assert read_reply(a_body({"content": parts})).content == "42"


def test_reasoning_alone_is_no_answer_but_a_tool_call_is() -> None:
    assert read_reply(a_body({"content": None, "reasoning": "hm"})).is_empty
    assert not read_reply(a_body({"content": None, "tool_calls": [{"id": "1"}]})).is_empty


def test_what_the_server_does_not_say_is_null() -> None:
    reply = read_reply(b'{"choices": [{"message": {"content": "x"}}], "usage": null}')

    assert (reply.prompt_tokens, reply.finish_reason, reply.served_model) == (None, None, None)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>proxy</html>",
        b'{"choices": [{"mess',
        b"[]",
        b'{"choices": []}',
        b'{"choices": [null]}',
        b'{"choices": [{"message": "hi"}]}',
        b"\xff\xfe",
    ],
)
def test_a_broken_answer_is_worth_asking_again(raw: bytes) -> None:
    with pytest.raises(CallFailed, match="broken") as caught:
        read_reply(raw)

    assert caught.value.kind == "unavailable"


@pytest.mark.parametrize(
    ("code", "kind"), [(401, "refused"), ("429", "unavailable"), (None, "unavailable")]
)
def test_an_error_with_status_200_is_an_error(code: object, kind: str) -> None:
    with pytest.raises(CallFailed, match="no credit") as caught:
        read_reply(json.dumps({"error": {"message": "no credit", "code": code}}).encode())

    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "refused"), (402, "refused"), (403, "refused"),
        (408, "unavailable"), (429, "unavailable"), (500, "unavailable"), (529, "unavailable"),
        (400, "rejected"), (404, "rejected"), (422, "rejected"), (307, "rejected"),
    ],
)  # fmt: skip
def test_a_status_says_whether_to_ask_again(status: int, kind: str) -> None:
    assert kind_of(status) == kind


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"error": {"message": "too\\n long"}}', "too long"),
        (b'{"error": "plain"}', "plain"),
        (b"Bad  Gateway", "Bad Gateway"),
        (b"\xff", "\ufffd"),
    ],
)
def test_an_error_is_told_in_the_servers_own_words_on_one_line(raw: bytes, words: str) -> None:
    assert server_words(raw) == words
