# SPDX-License-Identifier: Apache-2.0
"""What is decided before any file is read: options, splits, blend lists, sizes and identities, against fixed cases."""

import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import types
from collections import OrderedDict

import pytest

pytest.importorskip("numpy")

from stoker._megatron import identity  # noqa: E402
from stoker._megatron.blend_list import (  # noqa: E402
    get_blend_and_blend_per_split,
    get_blend_from_list,
    read_blend_per_split,
)
from stoker._megatron.builder import sizes_per_dataset  # noqa: E402
from stoker._megatron.config import BlendedMegatronDatasetConfig, GPTDatasetConfig  # noqa: E402
from stoker._megatron.megatron_dataset import MegatronDataset  # noqa: E402
from stoker._megatron.splits import (  # noqa: E402
    Split,
    convert_split_vector_to_split_matrix,
    parse_and_normalize_split,
    split_borders,
)

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron"
FIXED = json.loads((GOLDEN / "config" / "splits_blends_sizes.json").read_text())
CASES = sorted(path.name for path in (GOLDEN / "datasets").iterdir() if (path / "case.json").exists())


class Tokenizer:
    """Only what an identity needs."""

    def __init__(self, vocab_size=1000, identifiers=(("class", "a.b.C"), ("path", None)), **others):
        self.vocab_size = vocab_size
        self.unique_identifiers = OrderedDict(identifiers)
        self.eod = 9
        self.__dict__.update(others)


FLAGS = {"reset_position_ids": False, "reset_attention_mask": False, "eod_mask_loss": False}


def gpt_config(**options):
    return GPTDatasetConfig(**{"random_seed": 1, "sequence_length": 8, "tokenizer": Tokenizer(), **FLAGS, **options})


# --------------------------------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize("case", FIXED["split_strings"], ids=lambda case: repr(case["split"]))
def test_split_text(case):
    if "error" in case:
        with pytest.raises((AssertionError, ValueError)) as caught:
            parse_and_normalize_split(case["split"])
        assert type(caught.value).__name__ == case["error"]
        return
    vector = parse_and_normalize_split(case["split"])
    assert [repr(share) for share in vector] == case["vector"]
    assert json.dumps(convert_split_vector_to_split_matrix(vector)) == case["matrix_json"]


@pytest.mark.parametrize("case", FIXED["two_vectors"], ids=lambda case: f"{case['a']} and {case['b']}")
def test_two_split_vectors(case):
    matrix = convert_split_vector_to_split_matrix(*(parse_and_normalize_split(case[name]) for name in "ab"))
    assert json.dumps(matrix) == case["matrix_json"]


def test_split_borders():
    for case in FIXED["borders"]:
        matrix = convert_split_vector_to_split_matrix(parse_and_normalize_split(case["split"]))
        got = [None if pair is None else list(split_borders(pair, case["elements"])) for pair in matrix]
        assert got == case["borders"], case


def test_a_split_of_zeros_has_no_borders():
    matrix = convert_split_vector_to_split_matrix(parse_and_normalize_split("0,0,0"))
    with pytest.raises(ValueError, match="sum to zero"):
        split_borders(matrix[0], 10)


# ---------------------------------------------------------------------------------------------------------- blend lists


@pytest.mark.parametrize("case", FIXED["blend_lists"], ids=lambda case: " ".join(case["list"] or ["none"]) or "empty")
def test_blend_list(case):
    if "error" in case:
        with pytest.raises(ValueError):
            get_blend_from_list(case["list"])
    else:
        got = get_blend_from_list(case["list"])
        assert (None if got is None else list(got)) == case["blend"]


def test_blend_list_with_a_late_weight_is_refused():
    with pytest.raises(AssertionError, match="item 0 .*'a'.*item 2, '3'"):
        get_blend_from_list(["a", "b", "3", "c"])


def test_blend_per_split_file(tmp_path):
    path = tmp_path / "blends.json"
    path.write_text(json.dumps({"train": ["0.3", "a", "0.7", "b"], "valid": " c  d ", "test": None}))
    assert read_blend_per_split(str(path)) == [(["a", "b"], [0.3, 0.7]), (["c", "d"], None), None]


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        ('{"train": ["a"], "valid": null}', KeyError, "'test' is missing"),
        ('["a"]', ValueError, "expected a JSON object"),
        ("{", ValueError, "expected a JSON object"),
        ('{"train": {"a": 1}, "valid": null, "test": null}', ValueError, "train: expected a list"),
        ('{"train": [true], "valid": null, "test": null}', ValueError, "train: expected a list"),
        ('{"train": [], "valid": null, "test": null}', ValueError, "empty"),
    ],
)
def test_bad_blend_per_split_file(tmp_path, content, kind, words):
    path = tmp_path / "blends.json"
    path.write_text(content)
    with pytest.raises(kind, match=words):
        read_blend_per_split(str(path))


def test_data_arguments(tmp_path):
    (tmp_path / "args.txt").write_text("1\n a \n 2 b\n")
    (tmp_path / "split.json").write_text('{"train": "a", "valid": null, "test": null}')

    def blends(**args):
        return get_blend_and_blend_per_split(types.SimpleNamespace(**args))

    assert blends() == (None, None)
    assert blends(data_path=["a"], train_data_path=["b"]) == ((["a"], None), None)
    assert blends(data_args_path=str(tmp_path / "args.txt")) == ((["a", "b"], [1.0, 2.0]), None)
    assert blends(valid_data_path=["b"]) == (None, [None, (["b"], None), None])
    assert blends(per_split_data_args_path=str(tmp_path / "split.json")) == (None, [(["a"], None), None, None])
    with pytest.raises(AssertionError):
        blends(data_path=["a"], data_args_path=str(tmp_path / "args.txt"))


# ---------------------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("case", FIXED["sizes"], ids=lambda case: f"{len(case['weights'])} datasets")
def test_sizes_of_a_weighted_blend(case):
    assert sizes_per_dataset(case["weights"], case["targets"], case["surplus"]) == case["buffer_sizes"]
    assert sizes_per_dataset(case["weights"], case["targets"], 0.0) == case["target_sizes"]


def test_sizes_need_normalised_weights():
    with pytest.raises(AssertionError, match="sum of the weights"):
        sizes_per_dataset([0.5, 0.6], [10], 0.0)


# --------------------------------------------------------------------------------------------------------------- config

REFUSED = [
    ({"fast_cache_load": True}, "--data-cache-path must be provided when using --dataloader-fast-cache-load."),
    ({"fast_cache_load": True, "path_to_cache": "c", "blend": (["a"], None), "split": "1"}, "blends per split"),
    (
        {"defer_npy_index_mmap": True},
        "--data-cache-path must be provided when using --dataloader-defer-npy-index-mmap.",
    ),
    (
        {"blend_per_split": [(["a"], None), None, None], "blend": (["a"], None)},
        "blend and blend_per_split are incompatible",
    ),
    ({"blend_per_split": [(["a"], None), None, None], "split": "1"}, "split and blend_per_split are incompatible"),
    ({"blend_per_split": [(["a"], None)]}, "blend_per_split must contain 3 blends"),
    (
        {"blend_per_split": [None, (["a", "b"], [1.0]), None]},
        "blend per split prefixes and weights must be equal in number",
    ),
    ({"blend": (["a", "b"], [1.0]), "split": "1"}, "blend prefixes and weights must be equal in number"),
    ({"blend": (["a"], None)}, "split must be provided when blend is not None"),
    ({"blend": (["a"], None), "split": "1,2,3,4"}, "4 numbers"),
    ({"tokenizer": None}, "tokenizer"),
    ({"reset_position_ids": None}, "reset_position_ids"),
    ({"reset_attention_mask": None}, "reset_attention_mask"),
    ({"eod_mask_loss": None}, "eod_mask_loss"),
    ({"varlen_sbhd_validation": True, "hybrid_context_parallel": True}, "hybrid_context_parallel"),
    ({"tokenizer": Tokenizer(None), "sequences_per_dataset": {"a": (1, 2)}}, "sequences_per_dataset"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_refused_options(options, words):
    with pytest.raises(AssertionError) as caught:
        gpt_config(**options)
    assert words in str(caught.value)


def test_the_first_rule_that_is_broken_is_named():
    everything = {"blend_per_split": [(["a"], [1.0, 2.0])], "split": "1", "tokenizer": None}
    with pytest.raises(AssertionError, match="split and blend_per_split"):
        gpt_config(**everything)
    with pytest.raises(AssertionError, match="must contain 3"):
        gpt_config(**{**everything, "split": None})


def test_checks_hold_without_assertions():
    code = (
        "from stoker._megatron.config import BlendedMegatronDatasetConfig as C\n"
        "try:\n    C(1, 8, blend=(['a'], None))\nexcept AssertionError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "split must be provided when blend is not None\n"


def test_mock_overwrites_the_split():
    config = gpt_config(split="9,1,0", blend_per_split=[None, None, None])
    assert config.mock and config.split == "1,1,1"
    assert config.split_matrix == [(0, 1 / 3), (1 / 3, 2 / 3), (2 / 3, 1.0)]
    other = gpt_config(blend_per_split=[(["a"], None), None, None])
    assert not other.mock and other.split is None and other.split_matrix is None


@pytest.mark.parametrize(("vocabulary", "code"), [(None, None), (65535, 8), (65536, 8), (65537, 4), (10**6, 4)])
def test_token_dtype_code(vocabulary, code):
    assert gpt_config(tokenizer=Tokenizer(vocabulary)).token_dtype_code == code


def test_configs_can_be_derived():
    @dataclasses.dataclass
    class Mine(GPTDatasetConfig):
        more: int = 3

        def __post_init__(self):
            super().__post_init__()
            self.twice = 2 * self.more

    made = Mine(1, 8, (["a"], None), split="1", tokenizer=Tokenizer(), **FLAGS, more=4)
    assert (made.twice, made.blend, made.sequence_length) == (8, (["a"], None), 8)
    assert [field.name for field in dataclasses.fields(BlendedMegatronDatasetConfig)][:8] == [
        "random_seed", "sequence_length", "blend", "blend_per_split", "multiple_validation_sets", "full_validation",
        "split", "split_matrix",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- identity


def dataset_class(name):
    """A mid-level dataset of this class name that reads nothing."""
    return type(name, (MegatronDataset,), {"__len__": lambda self: 0, "__getitem__": lambda self, idx: {}})


def described(case, parsed, tokenizer):
    """The identity that stoker gives a dataset of a case, whose description is known."""
    options = {**case["config"], "tokenizer": Tokenizer(identifiers=tokenizer.items())}
    config = GPTDatasetConfig(**options)
    return dataset_class(parsed["class"])(
        None, parsed["dataset_path"], None, parsed["num_samples"], Split[parsed["index_split"]], config
    )


@pytest.mark.parametrize("name", CASES)
def test_identity_of_mid_level_datasets(name):
    folder = GOLDEN / "datasets" / name
    case = json.loads((folder / "case.json").read_text())
    texts = [path for path in (folder / "expected").rglob("*-description.txt") if "-BlendedDataset-" not in path.name]
    assert texts or name in ("17_mock", "22_oversample_error", "23_empty_last_document_partial_error")
    for path in texts:
        text = path.read_bytes().decode()
        made = described(case, json.loads(text), case["tokenizer"]["unique_identifiers"])
        assert made.unique_description == text
        assert path.name.startswith(made.unique_description_hash)


def test_identity_of_another_version():
    for entry in json.loads((GOLDEN / "versions" / "descriptions.json").read_text()):
        case = json.loads((GOLDEN / "datasets" / entry["case"] / "case.json").read_text())
        for wanted in entry["splits"].values():
            if wanted is None:
                continue
            parsed = json.loads(wanted["description"])
            if parsed["class"] == "BlendedDataset":
                children = [described(case, child, entry["tokenizer"]) for child in parsed["datasets"]]
                text = identity.join(
                    [
                        ("class", identity.text_of("BlendedDataset")),
                        ("datasets", identity.list_of(child.unique_description for child in children)),
                        ("split", identity.text_of(parsed["split"])),
                        ("weights", identity.list_of(map(identity.text_of, parsed["weights"]))),
                        ("size", identity.text_of(parsed["size"])),
                    ]
                )
            else:
                text = described(case, parsed, entry["tokenizer"]).unique_description
            assert text == wanted["description"]
            assert identity.hash_of(text) == wanted["hash"]


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -3, 2**70, 1e16, 1e-5, 0.1, math.inf, "", "a\n\"\\/\x7f\x00é漢😀", [], {}, [[], {}], [1, [None, 2.0]],
     {"a": {"b": [1, 2]}, "c": ""}, (1, (2,))],
    ids=repr,
)  # fmt: skip
def test_joined_text_is_what_json_writes(value):
    wanted = {"before": 1, "é": value, "after": [value, value]}
    joined = identity.join(
        [
            ("before", identity.text_of(1)),
            ("é", identity.text_of(value)),
            ("after", identity.list_of([identity.text_of(value)] * 2)),
        ]
    )
    assert joined == json.dumps(wanted, indent=4)


def test_attributes_of_users_are_part_of_the_identity():
    class Mine(dataset_class("Base")):
        @staticmethod
        def _key_config_attributes():
            return ["random_seed", "tokenizer", "path_to_cache"]

    config = gpt_config(path_to_cache="x")
    made = Mine(None, "p", None, 3, Split.valid, config)
    assert json.loads(made.unique_description) == {
        "class": "Mine", "dataset_path": "p", "num_samples": 3, "index_split": "valid", "random_seed": 1,
        "tokenizer": {"class": "a.b.C", "path": None}, "path_to_cache": "x",
    }  # fmt: skip
    assert made.unique_description == json.dumps(
        made.unique_identifiers, indent=4, default=lambda value: value.unique_identifiers
    )


def test_what_is_shared_belongs_to_one_config():
    first, second = gpt_config(), gpt_config(random_seed=2)
    plain = [
        dataset_class("A")(None, "p", None, 1, Split.train, config).unique_description for config in (first, second)
    ]
    with identity.shared(first):
        again = [
            dataset_class("A")(None, "p", None, 1, Split.train, config).unique_description for config in (first, second)
        ]
    assert again == plain and plain[0] != plain[1]


def test_an_identity_of_something_else_is_refused_by_name():
    with pytest.raises(TypeError, match="Tokenizer.* cannot be part|object cannot be part"):
        dataset_class("A")(None, "p", None, 1, Split.train, gpt_config(tokenizer=object()))


def test_the_identity_is_that_of_the_time_it_was_made():
    config = gpt_config()
    made = dataset_class("A")(None, "p", None, 1, Split.train, config)
    config.random_seed = 2
    assert json.loads(made.unique_description)["random_seed"] == made.unique_identifiers["random_seed"] == 1


# ------------------------------------------------------------------------------------------------------------------ pad


class Raises:
    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner):
        raise NotImplementedError(self.name)


@pytest.mark.parametrize(
    ("others", "allow", "pad"),
    [
        ({}, False, -1),
        ({"pad": 5}, False, 5),
        ({"pad": 0}, False, 0),
        ({"pad": 9}, False, -1),  # the id of eod
        ({"pad": 9}, True, 9),
        ({"pad": 5, "eos": 5}, False, -1),
        ({"pad": 5, "special_tokens_dict": {"pad_token": 5, "x": 6}}, False, 5),
        ({"pad": 5, "special_tokens_dict": {"pad_token": 5, "x": 5}}, False, -1),
        ({"pad": 9, "special_tokens_dict": {"x": 1}}, False, 9),  # a table counts alone
    ],
)
def test_pad_id(others, allow, pad):
    config = gpt_config(tokenizer=Tokenizer(**others), allow_ambiguous_pad_tokens=allow)
    assert dataset_class("A")(None, "p", None, 1, Split.train, config)._pad_token_id == pad


def test_a_tokenizer_may_refuse_to_name_its_tokens():
    class Shy(Tokenizer):
        pad = Raises("pad")
        eos = Raises("eos")

    assert dataset_class("A")(None, "p", None, 1, Split.train, gpt_config(tokenizer=Shy()))._pad_token_id == -1
