"""What says how runs are read: one record, the keywords of analyses, and those of `read_runs`."""

import inspect
from dataclasses import fields

import extrap
from extrap.reading.reader import ReadingKeywords
from extrap.reading.request import Request
from extrap.records.runs import LOSS_KINDS

OPTIONS = {field.name: field for field in fields(Request) if field.metadata}


def keywords_of_read_runs():
    parameters = inspect.signature(extrap.read_runs).parameters.values()
    return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}


def test_the_record_the_keywords_and_the_function_name_the_same_options():
    assert set(ReadingKeywords.__annotations__) == set(OPTIONS)
    assert set(keywords_of_read_runs()) == {*OPTIONS, "stage"}


def test_the_keywords_of_an_analysis_are_typed_as_those_of_the_function():
    keywords = keywords_of_read_runs()
    for name, kind in ReadingKeywords.__annotations__.items():
        assert kind.__forward_arg__ == keywords[name].annotation, name


def test_the_defaults_of_the_function_are_those_of_the_record():
    request = Request(**{name: p.default for name, p in keywords_of_read_runs().items()})
    for field in fields(Request):
        assert getattr(request, field.name) == getattr(Request(), field.name), field.name


def test_an_option_may_be_given_several_times_where_the_record_holds_several():
    for name, field in OPTIONS.items():
        holds_several = field.type.startswith(("tuple", "Mapping", "Where"))
        assert field.metadata["metavar"].endswith("...") is holds_several, name
        assert (field.metadata["metavar"] == "") is (field.type == "bool"), name


def test_the_kinds_of_loss_are_the_choices_of_the_option():
    assert OPTIONS["loss_kind"].metadata["metavar"].split("|") == list(LOSS_KINDS)
