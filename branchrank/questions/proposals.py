"""An LLM's proposals for passage labels."""

from __future__ import annotations

import re

from branchrank.errors import LLMError
from branchrank.llm.gateway import Gateway
from branchrank.llm.parsing import read_json
from branchrank.llm.prompts import label_messages, label_schema
from branchrank.llm.request import CallContext, LLMReply, LLMRequest, ReplyError
from branchrank.questions.labels import CHOICES, Choice
from branchrank.records import Question

STAGE = "label"
#: The LLM proposes no more labels after this number of consecutive failed calls.
MOST_FAILED = 3
_PASSAGE_CHARS = 6000
_WORD = re.compile(r"[a-z]+")


class Proposals:
    """Proposes labels with an LLM. ``failed`` is the number of consecutive failed calls."""

    def __init__(self, llm: Gateway) -> None:
        self._llm = llm
        self.model = llm.model
        self.failed = 0

    def __call__(self, question: Question, heading: str, text: str) -> Choice | None:
        """Return the proposed label for a passage, or ``None`` if the call failed.

        Raises the same errors as :meth:`Gateway.ask`, and :class:`LLMError` after three consecutive failed
        calls.
        """
        request = LLMRequest(
            stage=STAGE,
            messages=label_messages(question.question, heading, text[:_PASSAGE_CHARS]),
            schema=label_schema(CHOICES),
            max_tokens=self._llm.max_tokens,
            context=CallContext(question_id=question.id, predictor="questions", seed=0),
        )
        answer = self._llm.ask(request, read_label)
        self.failed = 0 if answer.fault is None else self.failed + 1
        if self.failed >= MOST_FAILED:
            raise LLMError(
                f"{self.failed} calls in a row gave no label: {answer.detail or answer.fault}",
                remedy="fix the problem with the LLM server and run the command again; labels are kept",
            )
        return answer.value


def read_label(reply: LLMReply) -> Choice:
    """Return the label that a reply contains. If a reply is not JSON, the first word that is a label is used.

    >>> read_label(LLMReply(text='{"label": "Partly"}')), read_label(LLMReply(text="No, it does not."))
    ('partly', 'no')
    """
    try:
        value = read_json(reply.text)
        said = str(value.get("label", "")) if isinstance(value, dict) else ""
    except ReplyError:
        said = reply.text
    words = _WORD.findall(said.lower())
    found = next((choice for word in words for choice in CHOICES if word == choice), None)
    if found is None:
        raise ReplyError("no label")
    return found
