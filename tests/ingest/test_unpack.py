import gzip

import pytest
import zstandard

from pipelines.ingest.unpack import DamageError, chunks

TEXT = b"".join(b'{"line": %d}\n' % i for i in range(20_000))
PACK = {
    "plain": lambda text: text,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def unpack(path, data):
    """The bytes that come out, and the reason why there are not more."""
    path.write_bytes(data)
    out = bytearray()
    try:
        for chunk in chunks(str(path)):
            out += chunk
    except DamageError as damage:
        return bytes(out), str(damage)
    return bytes(out), None


@pytest.mark.parametrize("how", PACK)
def test_what_was_packed_comes_out_whatever_the_name(tmp_path, how):
    assert unpack(tmp_path / "anything", PACK[how](TEXT)) == (TEXT, None)
    assert unpack(tmp_path / "empty", PACK[how](b"")) == (b"", None)


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_members_follow_one_another_and_zeros_are_padding(tmp_path, how):
    packed = PACK[how](b"a\n") + PACK[how](TEXT) + PACK[how](b"b\n") + b"\0" * 512
    assert unpack(tmp_path / "f", packed) == (b"a\n" + TEXT + b"b\n", None)


@pytest.mark.parametrize("how", ["gzip", "zstd"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_cut_off_file_gives_what_it_has(tmp_path, how, kept):
    packed = PACK[how](TEXT)
    out, reason = unpack(tmp_path / "f", packed[: int(len(packed) * kept)])
    assert reason.endswith("the file was cut off")
    assert TEXT.startswith(out)
    assert how == "zstd" or out


def test_a_wrong_checksum_loses_no_byte(tmp_path):
    packed = bytearray(gzip.compress(TEXT))
    packed[-8] ^= 0xFF
    out, reason = unpack(tmp_path / "f", bytes(packed))
    assert out == TEXT
    assert "damaged" in reason


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_damage_in_the_middle_keeps_what_came_before(tmp_path, how):
    packed = bytearray(PACK[how](TEXT))
    middle = len(packed) // 2
    packed[middle : middle + 64] = b"\xff" * 64
    out, reason = unpack(tmp_path / "f", bytes(packed))
    assert reason
    assert len(out) < len(TEXT) + 1_000_000
    assert how == "zstd" or TEXT[:1000] == out[:1000]


def test_a_small_file_that_stands_for_much_comes_in_small_pieces(tmp_path):
    big = b"\0" * 64_000_000
    for how in ("gzip", "zstd"):
        (tmp_path / how).write_bytes(PACK[how](big))
        sizes = [len(chunk) for chunk in chunks(str(tmp_path / how))]
        assert sum(sizes) == len(big)
        assert how == "zstd" or max(sizes) <= 262_144


def test_a_file_that_cannot_be_opened_is_damage(tmp_path):
    with pytest.raises(DamageError, match="cannot be read: No such file"):
        list(chunks(str(tmp_path / "gone")))
