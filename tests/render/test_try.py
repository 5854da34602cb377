def test_it(course):
    from render import check
    assert check.problems() == []
