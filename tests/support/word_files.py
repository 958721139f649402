"""Office files of before 2007, as small as programs read them."""

from __future__ import annotations

import base64
import lzma
import struct

from tests.support.ole_files import ole

_PACKED = (
    "/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4Cf/BhRdAGgzvhyGMHdg9KSEKcLeHHYngvKRhtyIyie69HOPvFo1A5f3qVBG1yyxEfW1RlzTTFvbmueJPaYy"
    "JnvMFskRBZNc0IAT9oKPKx5gxORtvsisyBQRfaEzfoJuuuDq3NCXUQDP7MUN1iDD7hYuAbgd9Thd+EI2vLt97EZcJpDiG5UQm8pgUlpDm5gZs/Dlxu/1"
    "8Lo+MR45shryZcsirZOWpu4va0tQA1ldv+o5bvJJ4+f8gFOpoq3p4BqajdeKnZvVK9KiQu6dgedMRFZTRheIMJOkTimvdS6tsQ1dUo5BOFI8apcbg2GZ"
    "f2MS+4af58MMoLSLBhA4kzRrrOFr76wxXJ9k00hqZSUwDbXqX2IP0Ss4ZZYFZPV2tUQ6iTnCnyQtHj/vEIQOjCxcDIfln2B/ttVBzx/zRJ94q1pU5ybQ"
    "+ADf/W60IoFo0MvfakaTSO0vmOxra5px9AW0YIHlcjm7h4WrKRukL5+6jDIhTkgyex1iBMda73zz/G26RODwjO6nYqlUqXZX+a6Mr0PtIZLTwzrfq/j0"
    "q/Z0LWHhOpb8dPqHntPfKpyVx+Vw2kjcSs4zdKV3Vtvo0nb+o4LlMD/1kP6CL1JqVz2rnciSQ7DUBCDUSZ3KF2nx5roc7xIxhtf3dNIbr7dwa6WUfKWW"
    "ekFQ/Iply6nTZmNNuhQrQgnh/P87BkvsmBOqFc6EwrMeQ5JdRNkrsA6yorXYIdxa2bTYj7jm/8gXNciWnNrQG3pru2rufXIjv27jsq/fmDwnd+qhtAz6"
    "6lRoN0ijohw9vhIFTTSUmCSLw2iwivPADvQLsZncA/+6shxua9UK3syRNiLV1NZfwNJUnQTQWER9xRWOyhvjoOKMfZEz5201HgAjB9WV96vio59WaWJA"
    "JJkI7Ift6WoSaCLRmn3nWSDtDVVVxVguC4E1cCP297UpM3BIuXtAq7dO2WfJsaXNOn+2/GYd7nvVerK4Yg/j9+qcM08YUonqbuF/5P6Wb4uui/Idho22"
    "mFolyA7yl5ItaszJSXyq1RdMOlYOYvR3SKA3p12PidMOFBOPTvf9dZjSTYY1Er/BI+zt+ibR3wgZyTZWn27H1ZqEIDzoy1akrQJgW3gG4HKbW/V8INQr"
    "qsgs9JTkXbkZOoxER7PstGrGViJjE4DJD2FQTdbzoQtYLAtE1rTAUP9swTMPVJ2/LkPrFE4sch06HYOsndXfK9gP6qcbATfqiUGp8mZEIZd0GeSKtSld"
    "Nd+TQJfRPkRiUUmylrBhqmu13AeK6P5ZGay935R6u/JUbwAfKm+5AN2RgAzPA9XZa8I0mkmmZhwLvlvzYbnpNWCfhUwtcJRKexDQBxRerSpPbV7fgYnS"
    "dJsXWS6doiRNxMJw/+BZVfHDdlCBMfb8l7ra0ibMqOVndVmjk4pnzbHjCyvXCWOO22YbXJlBXZH+826RU/BQXAfYD6j296qm2RKIHvo57ly9n4PLpq30"
    "RXUQbQrKNyyFzF9JTjplHQKOh7fICIjFvtIkmBeRbOlP23kyW06nSnGTOiX9NTMN2jeEgyFfXLK2+MYm23MbUDIiGy7vuNk2iDGFFUVM+3abNgVP8Jkx"
    "0nuL0VGcv0ET4+9CcA5KvQkoygsHobkDiVD9jqb+YA2/XjmqZTSif7B5+Diiha5jCU7PPE0n0GFiTJaCFYf+0PqZQjXnwyPcjBFXXeXLzLGkeMGPRc8J"
    "AqjKCEFkeARwJ4Pwxbd6jblBgTkiEMaH8tYCeaWsk4yWqGYS8w+lCXzHKx758mEA/qOQGYSPUAKC4twRZZyzu199dHcMibye4zESNJFW4g8SO+SpB8AR"
    "c3N4NbsMTeAVI3PdDBql5MVJbCLsllMp3VSvIo/REOLj4KignEkOsLZvZlxq5bhoLvHm+0aAgg3+ghWeTLkYvablnWqkOfwlEd6H6WnsiHcY2O0QKWop"
    "TS13exTALG4n0vKe2pJuqhwBQksS5enoRKbeuyMNZ+aU8Bb6jfbzNER56JMpax471VtUCIKO1MtMgi8NLpVWhxfhS4tBLBAXAlJJCn+aPSuJdC9Kcnkn"
    "lJCH+5Du4Xrf/HhBAo8A392RnVNWAAovgJeCgL0QAAGwDIBQAAAisoqdscRn+wIAAAAABFla"
)


def word() -> bytes:
    """A document of Word 97, as LibreOffice writes it: a heading, two paragraphs, and a table between them."""
    return lzma.decompress(base64.b64decode(_PACKED))


def powerpoint(*texts: str) -> bytes:
    """A presentation of PowerPoint 97 that is no more than its list of texts (MS-PPT 2.4.14.3)."""
    atoms = b"".join(_record(0, 4000, text.encode("utf-16-le")) for text in texts)
    return ole({"PowerPoint Document": _record(15, 1000, _record(15, 4080, atoms)), "Current User": bytes(20)})


def _record(version: int, kind: int, data: bytes) -> bytes:
    return struct.pack("<HHI", version, kind, len(data)) + data
