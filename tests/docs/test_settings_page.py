from docs.settings_page import NAMES, PAGE, names, page, settings_classes


def test_the_page_is_what_the_classes_say() -> None:
    assert PAGE.read_text() == page(), "run: make docs"


def test_the_names_for_other_programs_are_those_of_the_classes() -> None:
    assert NAMES.read_text() == names(), "run: make docs"


def test_every_service_is_on_the_page() -> None:
    assert {"gateway", "router", "kvstore"} <= settings_classes().keys()


def test_a_home_folder_does_not_get_into_the_page() -> None:
    assert "`~/.cache/twinfleet`" in page()
