from docs.workloads_page import LENGTHS, PAGE, page
from loadtest.arrivals import ARRIVALS
from loadtest.prompt_file import FORMATS
from loadtest.workloads import WORKLOADS


def test_the_page_is_what_the_classes_say() -> None:
    assert PAGE.read_text() == page(), "run: make docs"


def test_every_kind_is_on_the_page() -> None:
    for name in [*WORKLOADS, *ARRIVALS, *LENGTHS]:
        assert f"\n### {name}\n" in page()
    for name in FORMATS:
        assert f"`prompts`, format `{name}`" in page()


def test_every_parameter_is_described() -> None:
    for kind in [*WORKLOADS.values(), *ARRIVALS.values(), *LENGTHS.values()]:
        assert kind.__doc__
        for name, field in kind.model_fields.items():
            if name != "kind":
                assert field.description, f"{kind.__name__}.{name}"
                assert field.description.endswith("."), f"{kind.__name__}.{name}"
