"""Conversations: lists of messages stored next to the text of a prompt or an answer. Pure.

A message is an object in the form of OpenAI's chat API: `role` (one of ROLES), `content` (text),
and where present `name`, `tool_calls` and `tool_call_id`. A single text is not a conversation:
the messages of a prompt that is one question, and of an answer that is one text, are None.

The text next to the messages is for code that reads a single text: the transcript of a prompt, or
the assistant's own words in an answer.
"""

import json
from collections.abc import Sequence
from typing import Any

from arena.validation import TEXT_LIMIT, InputError, clean_text, json_type, quoted

Message = dict[str, Any]
ROLES = ("system", "user", "assistant", "tool")
OTHER_ROLES = {"developer": "system", "function": "tool"} | {"human": "user"}
OTHER_ROLES |= dict.fromkeys(("ai", "gpt", "model"), "assistant")
TITLES = {"system": "System", "user": "User", "assistant": "Assistant", "tool": "Tool result"}
MOST_MESSAGES = 1_000
NAME_LIMIT = 200
_CONTENT_PARTS = ("text", "input_text", "output_text")
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")  # not part of the answer


def clean_messages(value: Any) -> list[Message] | None:
    """Return the messages as they are stored; None for null. Raises InputError."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise InputError(f"is {json_type(value)}, not a list of messages")
    if not value:
        raise InputError("has no message")
    if len(value) > MOST_MESSAGES:
        raise InputError(f"has {len(value):,} messages; at most {MOST_MESSAGES:,} are allowed")
    messages = [_clean_message(number, message) for number, message in enumerate(value, start=1)]
    if (size := len(json.dumps(messages, ensure_ascii=False).encode())) > TEXT_LIMIT:
        raise InputError(f"is {size:,} bytes long; the limit is {TEXT_LIMIT:,}")
    return messages


def _clean_message(number: int, value: Any) -> Message:
    """Return one message; `number` counts from 1."""
    try:
        if not isinstance(value, dict):
            raise InputError(f"is {json_type(value)}, not an object")
        role = value.get("role")
        role = OTHER_ROLES.get(role, role) if isinstance(role, str) else role
        if role not in ROLES:
            raise InputError(f"has the role {quoted(role)}, which is not one of {', '.join(ROLES)}")
        message: Message = {"role": role, "content": text_of(value.get("content"))}
        if calls := value.get("tool_calls"):
            if not isinstance(calls, list):
                raise InputError(f"has tool_calls that are {json_type(calls)}, not a list")
            message["tool_calls"] = [_clean_tool_call(call) for call in calls]
        for name in ("name", "tool_call_id"):
            if (text := value.get(name)) is not None:
                message[name] = clean_text(text, limit=NAME_LIMIT)
        if not message["content"].strip() and not calls and role in ("user", "assistant"):
            raise InputError("is empty")
        return message
    except InputError as error:
        raise InputError(f"has a message {number:,} that {error.reason}") from None


def clean_turns(value: Any) -> list[Message] | None:
    """Return the messages of a candidate's template; None for null. Raises InputError."""
    messages = clean_messages(value)
    if messages is None:
        return None
    for number, message in enumerate(messages, start=1):
        if message["role"] == "tool" or message.keys() != {"role", "content"}:
            raise InputError(
                f"has a message {number:,} with more than text; a template's messages have only a "
                "role (system, user or assistant) and content"
            )
        if message["role"] == "system" and number > 1:
            raise InputError(f"has a system message as message {number:,}; it must come first")
    roles = [message["role"] for message in messages if message["role"] != "system"]
    if not roles or roles[0] != "user" or roles[-1] != "user":
        raise InputError("must start (after any system message) and end with a user message")
    return messages


def template_fields(messages: list[Message]) -> dict[str, Any]:
    """Return `system_prompt`, `user_template` and `messages` of a candidate with these clean turns.

    A system message with one user message, or a user message by itself, becomes the two texts.
    """
    *before, user = messages
    if any(message["role"] != "system" for message in before):
        return {"system_prompt": "", "user_template": "", "messages": messages}
    system = before[0]["content"] if before else ""
    return {"system_prompt": system, "user_template": user["content"], "messages": None}


def text_of(content: Any) -> str:
    """Return the content of a message as text: null is empty, and parts of text are joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return clean_text(content)
    if not isinstance(content, list):
        raise InputError(f"has content that is {json_type(content)}, not text")
    return "\n\n".join(
        _text_of_part(part)
        for part in content
        if not isinstance(part, dict) or part.get("type") not in _THOUGHTS
    )


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return clean_text(part)
    kind = part.get("type", "text") if isinstance(part, dict) else json_type(part)
    if kind not in _CONTENT_PARTS:
        raise InputError(f"has a part of the type {quoted(kind)}; only text can be compared")
    return clean_text(part.get("text"))


def _clean_tool_call(call: Any) -> Message:
    function = call.get("function", call) if isinstance(call, dict) else None
    if isinstance(function, str):  # Inspect's
        function = {"name": function, "arguments": call.get("arguments", "")}
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InputError("has a tool call without a function's name")
    arguments = function.get("arguments", function.get("args", ""))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    name = clean_text(function["name"], limit=NAME_LIMIT)
    made: Message = {
        "type": "function",
        "function": {"name": name, "arguments": clean_text(arguments)},
    }
    if isinstance(call.get("id"), str):
        made["id"] = clean_text(call["id"], limit=NAME_LIMIT)
    return made


def prompt_fields(messages: Sequence[Message]) -> dict[str, Any]:
    """Return `text` and `messages` of a prompt with these clean messages."""
    if len(messages) == 1 and messages[0]["role"] == "user" and "name" not in messages[0]:
        return {"text": messages[0]["content"], "messages": None}
    return {"text": transcript(messages), "messages": list(messages)}


def answer_fields(messages: Sequence[Message]) -> dict[str, Any]:
    """Return `text` and `messages` of an answer with these clean messages."""
    if len(messages) == 1 and messages[0]["role"] == "assistant" and len(messages[0]) == 2:
        return {"text": messages[0]["content"], "messages": None}
    return {"text": own_words(messages), "messages": list(messages)}


def own_words(messages: Sequence[Message]) -> str:
    """Return what the assistant itself says, without tool calls and their results."""
    own_words = (message["content"] for message in messages if message["role"] == "assistant")
    return "\n\n".join(content for content in own_words if content.strip())


def transcript(messages: Sequence[Message]) -> str:
    """Return a conversation as one text, each message under its role."""
    return "\n\n".join(f"{title_of(message)}:\n{_written_message(message)}" for message in messages)


def title_of(message: Message) -> str:
    """Return the role of a message in words, with the name of a tool."""
    name = message.get("name")
    return TITLES[message["role"]] + (f" ({name})" if name else "")


def _written_message(message: Message) -> str:
    calls = [
        f"Calls {call['function']['name']}({call['function']['arguments']})"
        for call in message.get("tool_calls", [])
    ]
    return "\n".join(filter(None, [message["content"], *calls]))


def split_answer(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Split a conversation before the first message of the assistant's last turn.

    The last turn begins after the last message of a user; it is empty if that message is the last.
    """
    users = [number for number, message in enumerate(messages) if message["role"] == "user"]
    place = users[-1] + 1 if users else 0
    return list(messages[:place]), list(messages[place:])
