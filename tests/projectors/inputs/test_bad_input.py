"""Every kind of bad file is answered with file, line, column, what was found, what is allowed, and a near name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from projectors.inputs import InputError, InputProblem, load_study
from projectors.inputs.yaml_text import MOST_BYTES, MOST_DEPTH, MOST_DIGITS, MOST_NODES

Write = Callable[[str, str], Path]

GOOD = """\
version: 1
model: mixtral-8x22b
cluster: mi355x-4x8
recipe:
  tp: 1
  gbs: 256
  seq_length: 8192
"""


def faults(path: Path) -> tuple[InputProblem, ...]:
    """What is wrong with a study file."""
    with pytest.raises(InputError) as caught:
        load_study(path)
    return caught.value.problems


def fault(path: Path) -> InputProblem:
    """The one thing that is wrong with a study file."""
    problems = faults(path)
    assert len(problems) == 1, problems
    return problems[0]


def place(problem: InputProblem) -> tuple[str, int, int]:
    return problem.where, problem.line, problem.column


def test_the_good_file_of_these_tests_loads(write: Write) -> None:
    assert load_study(write("a.study.yaml", GOOD)).recipe.gbs == 256


def test_unknown_key_names_its_place_and_the_nearest_known_one(write: Write) -> None:
    path = write("a.study.yaml", GOOD + "  sequence_paralel: true\n")
    problem = fault(path)
    assert place(problem) == ("recipe.sequence_paralel", 8, 3)
    assert problem.file == str(path)
    assert problem.found == 'an unknown key "sequence_paralel"'
    assert "sequence_parallel" in problem.allowed
    assert problem.suggestion == "sequence_parallel"
    assert str(problem).startswith(f"{path}:8:3: recipe.sequence_paralel: found an unknown key")


def test_unknown_section_is_placed_at_its_key(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD + "modle: x\n"))
    assert place(problem) == ("modle", 8, 1)
    assert problem.suggestion == "model"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("two", '"two"'),
        ('"2"', '"2"'),
        ("2.5", "2.5"),
        ("true", "true"),
        ("null", "null"),
        ("[1, 2]", "a list of 2"),
        ("{a: 1}", "a mapping"),
        ("0", "0"),
        ("-4", "-4"),
        ("10000000000000000000000", "10000000000000000000000"),
        ("1_000", '"1_000"'),
        ("0x10", '"0x10"'),
    ],
)
def test_wrong_type_zero_negative_and_huge_numbers_state_type_and_bounds(write: Write, value: str, found: str) -> None:
    problem = fault(write("a.study.yaml", GOOD.replace("tp: 1", f"tp: {value}")))
    assert place(problem) == ("recipe.tp", 5, 7)
    assert problem.found == found
    assert problem.allowed == "a whole number from 1 to 1,000,000"


def test_a_unit_stands_in_what_is_allowed(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD.replace("8192", "0")))
    assert problem.allowed == "a whole number from 1 to 100,000,000 (tokens)"


def test_unknown_word_lists_the_choices_and_suggests_one(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD + "  schedule: interleved\n"))
    assert place(problem) == ("recipe.schedule", 8, 13)
    assert problem.allowed.startswith("one of gpipe, 1f1b, interleaved, zb-h1")
    assert problem.suggestion == "interleaved"


def test_list_entries_are_placed_one_by_one(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD + "  stage_layers: [7, x, 7]\n"))
    assert place(problem) == ("recipe.stage_layers[1]", 8, 21)
    assert problem.found == '"x"'
    assert problem.allowed == "a list, each a whole number or null"


def test_missing_required_values_say_what_they_are(write: Write) -> None:
    problems = faults(write("a.study.yaml", "model: llama3.1-8b\nrecipe:\n  tp: 1\n"))
    assert [(problem.where, problem.found) for problem in problems] == [
        ("cluster", "no value"),
        ("recipe.gbs", "no value"),
        ("recipe.seq_length", "no value"),
    ]
    assert "sequences per optimizer step" in problems[1].allowed


def test_every_fault_is_reported_at_once(write: Write) -> None:
    text = "version: 2\nmodel: mixtral\ncluster: {hardware: h101, nodes: 0}\nrecipe: {tp: 0, gbs: x, seq_length: 1}\n"
    wheres = [problem.where for problem in faults(write("a.study.yaml", text))]
    assert wheres == ["version", "model", "cluster.hardware", "recipe.tp", "recipe.gbs"]


def test_missing_file_is_named_where_it_is_asked_for(write: Write, tmp_path: Path) -> None:
    problem = fault(tmp_path / "none.study.yaml")
    assert "there is no such file" in problem.found
    problem = fault(write("a.study.yaml", GOOD.replace("mixtral-8x22b", "cards/none.yaml")))
    assert place(problem) == ("model", 2, 8)
    assert "no such file" in problem.found


def test_missing_model_suggests_a_near_name(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD.replace("mixtral-8x22b", "mixtral-8x22")))
    assert place(problem) == ("model", 2, 8)
    assert problem.found == '"mixtral-8x22", which no model is named'
    assert problem.suggestion == "mixtral-8x22b"


def test_missing_cluster_suggests_hardware_in_the_same_size(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD.replace("mi355x-4x8", "mi355-16x8")))
    assert place(problem) == ("cluster", 3, 10)
    assert problem.suggestion == "mi355x-16x8"


def test_a_name_does_not_leave_the_profiles_folder(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD.replace("mixtral-8x22b", "..")))
    assert problem.where == "model"


def test_cyclic_extends_names_the_chain(write: Write) -> None:
    write("b.yaml", "extends: ./c.yaml\nnum_layers: 3\n")
    write("c.yaml", "extends: ./b.yaml\n")
    problem = fault(write("a.study.yaml", GOOD.replace("mixtral-8x22b", "./b.yaml")))
    assert problem.found == "extends that leads back to itself: b -> c -> b"
    assert (Path(problem.file).name, problem.line, problem.column) == ("c.yaml", 1, 10)


def test_a_file_that_extends_itself_is_a_cycle(write: Write) -> None:
    path = write("a.study.yaml", "extends: ./a.study.yaml\n")
    assert "leads back to itself" in fault(path).found


def test_faults_of_an_extended_file_are_placed_in_that_file(write: Write) -> None:
    base = write("card.yaml", "extends: llama3.1-8b\nhidden_size: -1\n")
    problems = faults(write("a.study.yaml", GOOD.replace("mixtral-8x22b", "{extends: ./card.yaml, num_layers: 0}")))
    assert [(problem.file == str(base), problem.where, problem.line) for problem in problems] == [
        (False, "model.num_layers", 2),
        (True, "hidden_size", 2),
    ]


def test_our_own_rules_are_placed_at_their_key(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD.replace("mixtral-8x22b", "{extends: llama3.1-8b, num_query_groups: 5}")))
    assert place(problem) == ("model.num_query_groups", 2, 49)
    assert problem.found == "5"
    assert problem.allowed == "divisors of num_attention_heads = 32"


def test_head_dim_may_be_left_out_only_when_it_divides(write: Write) -> None:
    problem = fault(
        write("a.study.yaml", GOOD.replace("mixtral-8x22b", "{extends: llama3.1-8b, hidden_size: 4097, head_dim: null}"))
    )
    assert problem.where == "model.head_dim"
    assert "4097" in problem.allowed


def test_tiers_must_grow_from_the_inside_out(write: Write) -> None:
    tier = "{name: %s, size: 8, bandwidth_gb_s: 100, latency_us: 1}"
    cluster = f"{{hardware: h100, nodes: 2, tiers: [{tier % 'node'}, {tier % 'fabric'}]}}"
    problem = fault(write("a.study.yaml", GOOD.replace("mi355x-4x8", cluster)))
    assert problem.where == "cluster.tiers"
    assert "fabric must be larger than level node" in problem.found


def test_network_and_tiers_exclude_each_other(write: Write) -> None:
    tiers = "[{name: all, size: null, bandwidth_gb_s: 1, latency_us: 1}]"
    cluster = f"{{hardware: h100, nodes: 2, network: dgx-h100, tiers: {tiers}}}"
    assert fault(write("a.study.yaml", GOOD.replace("mi355x-4x8", cluster))).found == "both network and tiers"


@pytest.mark.parametrize(
    "text", ["model: {a: 1", "model: [1, 2", 'model: "x', "model: x\n- y", "a: b: c", "\t- x", "a: *b\nmodel: 'x"]
)
def test_truncated_or_malformed_yaml_states_the_line(write: Write, text: str) -> None:
    problem = fault(write("a.study.yaml", text))
    assert "malformed YAML" in problem.found or "alias" in problem.found
    assert problem.line >= 1
    assert problem.column >= 1


def test_a_study_cut_off_inside_its_recipe_lacks_values(write: Write) -> None:
    assert [problem.where for problem in faults(write("a.study.yaml", GOOD[: GOOD.index("gbs")]))] == [
        "recipe.gbs",
        "recipe.seq_length",
    ]


def test_duplicate_key_names_both_lines(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD + "  tp: 2\n"))
    assert place(problem) == ("recipe.tp", 8, 3)
    assert problem.found == 'the key "tp" a second time (first in line 5)'


def test_binary_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.study.yaml"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe\x00")
    assert "not UTF-8" in fault(path).found
    path.write_bytes(b"model: a\x00b")
    problem = fault(path)
    assert (problem.found, problem.line, problem.column) == ("the character U+0000 (a binary file?)", 1, 9)


def test_large_files_are_refused_unread(write: Write) -> None:
    problem = fault(write("a.study.yaml", "#" * (MOST_BYTES + 1)))
    assert problem.found == "a file of 1,000,001 bytes"
    assert problem.allowed == "at most 1,000,000 bytes"


def test_folders_empty_files_and_other_top_levels_are_refused(write: Write, tmp_path: Path) -> None:
    assert fault(tmp_path).found == "a folder"
    assert fault(write("a.study.yaml", "")).found == "an empty file"
    assert fault(write("a.study.yaml", "# only a comment\n")).found == "nothing but null or comments"
    assert fault(write("a.study.yaml", "- 1\n- 2\n")).found == "a list of 2"
    assert fault(write("a.study.yaml", "hello")).found == '"hello"'
    assert fault(write("a.study.yaml", GOOD + "---\n" + GOOD)).found == "a second document"


def test_aliases_that_explode_are_refused_quickly(write: Write) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 20)]
    problem = fault(write("a.study.yaml", "\n".join(lines)))
    assert problem.found == f"more than {MOST_NODES:,} values with aliases written out"


def test_an_alias_of_itself_is_refused(write: Write) -> None:
    problem = fault(write("a.study.yaml", "model: &m {name: *m}\n"))
    assert place(problem) == ("model.name", 1, 18)
    assert "of itself" in problem.found


def test_tags_are_refused(write: Write) -> None:
    problem = fault(write("a.study.yaml", "model: !!python/object/apply:os.system ['true']\n"))
    assert place(problem) == ("model", 1, 8)
    assert "python/object" in problem.found


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "1e999"])
def test_numbers_that_are_not_finite_are_refused(write: Write, value: str) -> None:
    problem = fault(write("a.study.yaml", GOOD.replace("tp: 1", f"tp: {value}")))
    assert place(problem) == ("recipe.tp", 5, 7)
    assert problem.found == f"{value}, a number that is not finite"


def test_numbers_of_thousands_of_digits_are_refused(write: Write) -> None:
    problem = fault(write("a.study.yaml", GOOD.replace("tp: 1", "tp: " + "9" * 5000)))
    assert problem.found == "a number of 5,000 characters"
    assert problem.allowed == f"numbers of at most {MOST_DIGITS} characters"


def test_deep_nesting_is_refused(write: Write) -> None:
    problem = fault(write("a.study.yaml", "model: " + "[" * 500 + "]" * 500))
    assert problem.found == f"nesting deeper than {MOST_DEPTH} levels"
