"""Bytes become text as Python reads them, and go back unchanged; what is wrong is said in plain words."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.source.decoding import DecodingError, decode


def refusal(data: bytes) -> DecodingError:
    with pytest.raises(DecodingError) as caught:
        decode(data)
    return caught.value


def test_plain_utf8_is_the_default():
    source = decode("größe = 1\n".encode())

    assert (source.text, source.encoding, source.mark) == ("größe = 1\n", "utf-8", b"")


def test_a_byte_order_mark_is_kept_apart_and_written_back():
    data = b"\xef\xbb\xbfx = 1\n"
    source = decode(data)

    assert source.text == "x = 1\n"
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    "first",
    [
        b"# -*- coding: latin-1 -*-\n",
        b"#!/usr/bin/env python\n# vim: set fileencoding=latin-1 :\n",
        b"\n# coding=iso-8859-1\n",
    ],
)
def test_the_coding_comment_of_the_first_two_lines_decides(first):
    source = decode(first + b"x = '\xe9'\n")

    assert source.text.endswith("x = 'é'\n")
    assert source.encode(source.text) == first + b"x = '\xe9'\n"


@pytest.mark.parametrize(
    "data",
    [
        b"x = 1\ny = 2\n# coding: latin-1\n",
        b"x = 1  # coding: latin-1\n",
        b"x = 'coding: latin-1'\n",
        b"x = 1\n# coding: latin-1\n",
    ],
)
def test_a_coding_comment_elsewhere_says_nothing(data):
    assert decode(data).encoding == "utf-8"


def test_a_wrong_byte_is_named_with_its_line():
    error = refusal(b"x = 1\r\ny = 2\r\nz = '\xe9'\r\n")

    assert error.line == 3
    assert error.message == (
        "byte 0xe9 is not valid utf-8; save it as UTF-8, or name its encoding in a coding comment (PEP 263)"
    )


def test_an_unknown_encoding_is_named():
    assert (
        refusal(b"# coding: klingon\nx = 1\n").message == "unknown encoding 'klingon' in the coding comment"
    )


@pytest.mark.parametrize("name", ["rot13", "hex", "base64", "zip"])
def test_codecs_that_are_no_text_encodings_are_refused(name):
    assert "is not a text encoding" in refusal(f"# coding: {name}\nx = 1\n".encode()).message


@pytest.mark.parametrize(
    "name", ["idna", "punycode", "undefined", "utf-16", "unicode_escape", "mbcs", "utf_7"]
)
def test_odd_codecs_give_text_or_a_clear_refusal(name):
    try:
        decode(f"# coding: {name}\nx = '\\xe9'\n".encode() + b"\xff\xfe")
    except DecodingError as error:
        assert error.message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf16_and_utf32_are_named(encoding):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    error = refusal(mark + "import torch\n".encode(encoding))

    assert "which Python does not read; save it as UTF-8" in error.message


def test_a_mark_and_a_comment_that_disagree_are_refused():
    error = refusal(b"\xef\xbb\xbf# coding: latin-1\nx = 1\n")

    assert error.message == "the coding comment says iso8859-1, the byte order mark says UTF-8"


def test_line_ends_stay_as_they_are():
    assert decode(b"a = 1\r\nb = 2\rc = 3\n").text == "a = 1\r\nb = 2\rc = 3\n"


@given(st.binary(max_size=200))
def test_any_bytes_give_text_that_goes_back_or_a_refusal(data):
    try:
        source = decode(data)
    except DecodingError as error:
        assert error.message and error.line >= 1
    else:
        assert source.encode(source.text) == data


@given(st.sampled_from(["utf-8", "latin-1", "cp1252", "shift_jis", "ascii"]), st.text(max_size=30))
def test_python_itself_reads_the_same(encoding, text):
    source = f"# coding: {encoding}\nx = {text!a}\n".encode("ascii")

    assert ast.dump(ast.parse(decode(source).text)) == ast.dump(ast.parse(source))
