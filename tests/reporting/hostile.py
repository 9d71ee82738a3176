"""Names as an attacker would choose them, put into any record, and a page searched for them."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser

import pandas as pd

from extrap.reporting.html import POLICY

PAYLOADS = {
    "script": "<script>alert(1)</script>",
    "svg": "</text></svg><svg onload=alert(2)>",
    "attribute": '" autofocus onfocus=alert(3) x="',
    "apostrophe": "' onmouseover='alert(4)",
    "template": "{{ 7*7 }}{% for x in y %}{# #}",
    "style": "</style><style>*{background:url(//evil.example/a)}",
    "mathtext": r"$\frac{1}{$ $x_1$ \undefined_{",
    "picture": "<img src=//evil.example/b onerror=alert(5)>",
    "scheme": "javascript:alert(6)",
    "comment": "--><!--<![CDATA[<title></title>",
    "entity": "&lt;b&gt;&#x3c;i&amp;",
    "meta": "</head><meta http-equiv=refresh content=0;url=//evil.example>",
}
"""Each is short enough to be the name of a column."""
EVIL = " ".join(PAYLOADS.values()) + " \x1b[31m\x00\x08\ufffe"
LINK = re.compile(
    r"#[\w-]*$|data:,$|\./[\w.%-]+$"
    r"|data:image/(png|svg\+xml);base64,[\w+/=]+$"
)
TAGS = """html head meta link title style body header footer main nav section article div p span a
    h1 h2 h3 ul ol li dl dt dd table caption thead tbody tr th td colgroup col details summary
    figure figcaption small strong em code sup br time svg g path use rect defs clippath text
    tspan lineargradient stop image circle line polyline polygon pattern"""


class Page(HTMLParser):
    """What a page is made of, and what is wrong with it."""

    def __init__(self):
        super().__init__()
        self.wrong: list[str] = []
        self.policies: list[str] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.links: list[dict[str, str]] = []
        self.open: list[str] = []
        self.n_tags = 0

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in ("br", "col", "link", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_startendtag(self, tag, attrs):
        self.n_tags += 1
        given = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.append(given)
        if tag not in TAGS.split():
            self.wrong.append(f"<{tag}>")
        if given.get("http-equiv", "").lower() == "content-security-policy":
            if self.n_tags > 5:
                self.wrong.append(f"a policy as tag {self.n_tags}")
            self.policies.append(given["content"])
        elif "http-equiv" in given:
            self.wrong.append(f"http-equiv {given['http-equiv']}")
        for name, value in given.items():
            if name.startswith("on") or name in ("srcdoc", "autofocus", "formaction", "ping"):
                self.wrong.append(f"{name}={value[:60]}")
            is_link = name in ("href", "src", "xlink:href", "action", "data")
            if is_link and not LINK.match(value):
                self.wrong.append(f"{name}={value[:60]}")
            if name == "style" and re.search(r"url\((?!#)|expression|@import|\\", value):
                self.wrong.append(f"style {value[:60]}")
            if name == "id":
                self.ids.append(value)
            if name == "id" and not re.fullmatch(r"[A-Za-z][\w.-]*", value):
                self.wrong.append(f"id {value[:60]}")
            if name in ("content", "aria-label", "title"):
                self.words.append(value)

    def handle_data(self, data):
        is_style = (self.get_starttag_text() or "").startswith("<style")
        if is_style and re.search(r"url\((?!#)|@import|expression", data):
            self.wrong.append("a style sheet that loads something")
        self.words.append(data)


def inspected(html):
    """A page that loads nothing, runs nothing, and says so first."""
    page = Page()
    page.feed(html)
    page.close()
    assert (page.wrong, page.open) == ([], [])
    assert len(page.ids) == len(set(page.ids))
    skip = page.links[0]
    assert (skip["class"], skip["href"][1:] in page.ids) == ("skip", True)
    assert page.policies == [POLICY]
    return page


def poisoned(record, names):
    """A record, and all within it, with these texts in place of others.

    A field that refuses its text, as the name of a study does, keeps it.
    """
    if isinstance(record, str):
        return names.get(record, record)
    if isinstance(record, pd.DataFrame):
        return record.rename(columns=names).map(lambda v: poisoned(v, names))
    if is_dataclass(record) and not isinstance(record, type):
        for field in fields(record):
            if not field.init or field.name.startswith("_"):
                continue
            before = getattr(record, field.name)
            after = poisoned(before, names)
            if after is not before:
                try:
                    record = replace(record, **{field.name: after})
                except (ValueError, TypeError):
                    continue
        return record
    if isinstance(record, Mapping):
        return {poisoned(k, names): poisoned(v, names) for k, v in record.items()}
    if isinstance(record, tuple) and hasattr(record, "_fields"):
        return type(record)(*(poisoned(item, names) for item in record))
    if isinstance(record, tuple | list):
        return type(record)(poisoned(item, names) for item in record)
    return record
