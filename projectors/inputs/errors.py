"""What is wrong with an input, in words: file, line, column, what was found, what is allowed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputProblem:
    """One fault of an input. `line` and `column` count from 1; 0 = unknown."""

    where: str                      # dotted key, such as recipe.tp; "" = the whole file
    found: str                      # what stands there, shortened
    allowed: str                    # what may stand there
    file: str = ""
    line: int = 0
    column: int = 0
    suggestion: str | None = None   # nearest known name or legal value

    def __str__(self) -> str:
        place = ":".join([self.file or "input", *([str(self.line), str(self.column)] if self.line else [])])
        key = f"{self.where}: " if self.where else ""
        hint = f" (did you mean {self.suggestion}?)" if self.suggestion else ""
        return f"{place}: {key}found {self.found}, allowed is {self.allowed}{hint}"

    @property
    def brief(self) -> str:
        """One line without the folder, and with the suggestion, where there is one, instead of all that is allowed."""
        name = self.file.replace("\\", "/").rpartition("/")[2]
        place = ":".join([name or "input", *([str(self.line), str(self.column)] if self.line else [])])
        key = f"{self.where}: " if self.where else ""
        hint = f"did you mean {self.suggestion}?" if self.suggestion else f"allowed is {self.allowed}"
        return f"{place}: {key}found {self.found}; {hint}"


class InputError(Exception):
    """An input cannot be used; carries every problem found, never just the first."""

    def __init__(self, problems: tuple[InputProblem, ...] | list[InputProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[InputProblem, ...]]]:
        """Travels between processes with its problems, not with its text."""
        return InputError, (self.problems,)
