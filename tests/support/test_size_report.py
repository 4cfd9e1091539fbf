from tests.support.size_report import report


def test_the_report_counts_packages_and_names_the_largest() -> None:
    lines = report()
    assert any(line.endswith(" common/wire") for line in lines)
    assert any(line.startswith("largest by function lines: ") for line in lines)
