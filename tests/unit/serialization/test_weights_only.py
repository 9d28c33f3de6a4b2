"""`weights_only`: what a file may name, what the user may add, and that nothing else ever runs."""

import collections
import fractions
import io
import os
import pickle
import zipfile

import pytest

import rushlight as torch
from rushlight.serialization import CorruptFileError, UnsupportedObjectError
from rushlight.serialization import __dict__ as names

Point = collections.namedtuple("Point", "x y")
RAN = []


class Evil:
    """Runs code when it is read."""

    def __init__(self, call, *args):
        self.call = call, args

    def __reduce__(self):
        return self.call


def run(text):
    RAN.append(text)
    return text


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def of_pickle(data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a/data.pkl", data)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "evil,message",
    [
        (Evil(run, "x"), "GLOBAL .*run was not an allowed global by default"),
        (Evil(eval, "1"), "GLOBAL eval was not an allowed global"),
        (Evil(print, "x"), "GLOBAL print was not an allowed global"),
        (Evil(os.system, "true"), "GLOBAL posix.system whose module posix is blocked"),
        (Evil(getattr, "x", "y"), "GLOBAL getattr was not"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_code_is_refused_and_does_not_run(evil, message):
    RAN.clear()
    with pytest.raises(pickle.UnpicklingError, match=message) as caught:
        torch.load(saved({"a": torch.ones(1), "evil": evil}))
    assert str(caught.value).startswith("Weights only load failed. ")
    assert RAN == []


def test_code_runs_only_when_asked_for():
    RAN.clear()
    assert torch.load(saved(Evil(run, "x")), weights_only=False) == "x"
    assert RAN == ["x"]


def test_a_class_loads_after_the_user_allowed_it():
    file = saved([Point(1, torch.ones(2)), fractions.Fraction(1, 3)])
    assert sorted(torch.serialization.get_unsafe_globals_in_checkpoint(file)) == sorted(
        [f"{__name__}.Point", "fractions.Fraction"]
    )
    file.seek(0)
    with torch.serialization.safe_globals([Point, fractions.Fraction]):
        assert set(torch.serialization.get_safe_globals()) == {Point, fractions.Fraction}
        point, fraction = torch.load(file)
    assert isinstance(point, Point) and point.y.tolist() == [1, 1] and fraction * 3 == 1
    assert torch.serialization.get_safe_globals() == []
    torch.serialization.add_safe_globals([(Point, f"{__name__}.Point"), fractions.Fraction])
    file.seek(0)
    assert torch.load(file)[0].x == 1
    torch.serialization.clear_safe_globals()
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Point was not an allowed global"):
        torch.load(file)


def test_blocked_modules_stay_blocked():
    with torch.serialization.safe_globals([(os.system, "posix.system"), os.system]):
        with pytest.raises(pickle.UnpicklingError, match="is blocked"):
            torch.load(saved(Evil(os.system, "true")))


def test_modules_load_with_weights_only_false_or_as_safe_classes():
    model = torch.nn.Linear(2, 1)
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL torch.nn.modules.linear.Linear"):
        torch.load(saved(model))
    whole = torch.load(saved(model), weights_only=False)
    assert whole(torch.ones(2)).tolist() == model(torch.ones(2)).tolist()
    with torch.serialization.safe_globals([torch.nn.Linear]):
        assert torch.load(saved(model)).weight.tolist() == model.weight.tolist()


class Marked(torch.Tensor):
    """A subclass."""


def test_tensors_with_classes_and_attributes():
    plain, part = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    plain.note, part.note = "x", {"a": 1}
    got = torch.load(saved([plain, part]))
    assert (got[0].note, got[1].note) == ("x", {"a": 1})
    assert isinstance(got[1], torch.nn.Parameter)
    made = torch.ones(2).as_subclass(Marked)
    with pytest.raises(pickle.UnpicklingError, match="Marked was not an allowed"):
        torch.load(saved(made))
    with torch.serialization.safe_globals([Marked]):
        assert type(torch.load(saved(made))) is Marked


G, ODICT = b"c%s\n%s\n", b"ccollections\nOrderedDict\n"
NESTED_KEY = b"\x80\x02})" + b"\x85" * 200_000 + b"Ns."
SHARED_KEY = b"\x80\x02})" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(60)) + b"Ns."
ATTACKS = {
    "a huge bytearray": b"\x80\x02c__builtin__\nbytearray\n\x8a\x08" + b"\xff" * 7 + b"\x00\x85R.",
    "a huge tensor": b"\x80\x02ctorch\nTensor\n\x8a\x06" + b"\xff" * 5 + b"\x00\x85R.",
    "a key of deep tuples": NESTED_KEY,
    "a key that doubles": SHARED_KEY,
    "a set of deep tuples": b"\x80\x02c__builtin__\nset\n](" + NESTED_KEY[3:-3] + b"e\x85R.",
    "an unknown codec": b"\x80\x02c_codecs\nencode\nX\1\0\0\0aX\4\0\0\0zlib\x86R.",
    "a call of a value": b"\x80\x02K\1)R.",
    "a call of a dtype": b"\x80\x02ctorch\nfloat32\n)R.",
    "a call of a storage class": b"\x80\x02ctorch\nFloatStorage\n)R.",
    "a text of 4 GiB": b"\x80\x02X\xff\xff\xff\xffabc.",
    "an empty stack": b"\x80\x02.",
    "no mark": b"\x80\x02t.",
    "no memo": b"\x80\x02h\x05.",
    "nothing": b"",
    "no end": b"\x80\x02N",
    "an unknown opcode": b"\x80\x02\xff.",
    "protocol 4": pickle.dumps({"a": (1, "b")}, 4),
    "attributes of a list": b"\x80\x02]}b.",
    "attributes that are none": b"\x80\x02" + ODICT + b")RK\1b.",
    "a storage at a path": b"\x80\x02(X\7\0\0\0storagectorch\nFloatStorage\nX\6\0\0\0../../"
    b"X\3\0\0\0cpuK\1tQ.",
    "a storage by number": b"\x80\x02K\1Q.",
    "another persistent id": b"\x80\x02X\1\0\0\0aQ.",
    "a text that is not UTF-8": b"\x80\x02X\1\0\0\0\xff.",
    "a name without end": b"\x80\x02cos",
    "an item of a tuple": b"\x80\x02)K\1K\1s.",
    "a dict in a list": b"\x80\x02}K\1a.",
    "a key without value": b"\x80\x02}(K\1u.",
    "a key that has no hash": b"\x80\x02}]Ns.",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused(name):
    with pytest.raises((pickle.UnpicklingError, CorruptFileError, UnsupportedObjectError)):
        torch.load(of_pickle(ATTACKS[name]))


def test_deep_values_that_nobody_hashes_load():
    value = torch.load(of_pickle(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."))
    for _ in range(99_999):
        value = value[0]
    assert value == []


def test_safe_tables_are_public():
    for name in ("add_safe_globals", "safe_globals", "get_unsafe_globals_in_checkpoint"):
        assert name in names and name in torch.serialization.__all__


def test_the_arguments_are_checked():
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        torch.load(io.BytesIO(), pickle_module=pickle, weights_only=True)
    with pytest.raises(ValueError, match="returned by torch.save"):
        torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"abc"))
    with pytest.raises(AttributeError, match="path"):
        torch.load(3)
    with pytest.raises(AttributeError, match="'write' attribute"):
        torch.save(3, 3)
    with pytest.raises(ValueError, match="not written"):
        torch.save(3, io.BytesIO(), _use_new_zipfile_serialization=False)


@pytest.mark.parametrize("where", ["cuda", "cuda:1", torch.device("cuda"), {"cpu": "cuda:0"}])
def test_devices_that_are_not_there_are_refused(where):
    with pytest.raises(RuntimeError, match="deserialize object on a CUDA device"):
        torch.load(saved(torch.ones(1)), map_location=where)


def test_map_location_gets_every_storage_once():
    calls = []

    def place(storage, location):
        calls.append((storage.nbytes(), location))
        return storage if storage.nbytes() == 1 else storage.clone().fill_(0)

    x = torch.arange(3.0)
    got = torch.load(saved([x, x[1:], torch.ones(1, dtype=torch.int8)]), map_location=place)
    assert [t.tolist() for t in got] == [[0, 0, 0], [0, 0], [1]]
    assert calls == [(12, "cpu"), (1, "cpu")]
    got[0][1] = 5
    assert got[1].tolist() == [5, 0]

    def fail(storage, location):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        torch.load(saved(x), map_location=fail)
