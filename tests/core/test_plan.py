"""What the plan says of a run, and what it refuses."""

import json

from gc25d_core.plan import plan_run, read_plan


def planned(settings, b):
    b.write(settings.src)
    return plan_run(settings, b.run)


def faults_of(plan):
    return {(f.kind, f.clip and int(f.clip.rsplit("__", 1)[1])) for f in plan.faults}


def test_a_whole_clip_with_its_extension(settings_for, new_run):
    s = settings_for()
    plan = planned(s, new_run(frames=224, clip_starts=[112, 0]))
    assert [c.clip for c in plan.clips] == ["01_valley__R10_s1__000000", "01_valley__R10_s1__000112"]
    c = plan.clips[1]
    assert (c.has_ext, c.n_blocks, c.look, c.ext_look, c.ext_look_change) == (
        True,
        27,
        "forest/dusk",
        "forest/dusk",
        False,
    )
    assert [a[0] for a in c.actions] == list(range(28, 55)), "row j is run block s//4 + j"
    assert c.prompts == [(0, "p3"), (4, "p4"), (12, "p5"), (20, "p6")]
    assert plan.faults == () and plan.planned == 2
    assert read_plan(s, "R10_s1") == plan


def test_a_look_that_changes_at_the_extension(settings_for, new_run):
    b = new_run()
    for f in range(81, 112):
        b.set_json(f, look={"biome": "desert", "lighting": "noon"})
    (c,) = planned(settings_for(), b).clips
    assert (c.look, c.ext_look, c.ext_look_change) == ("forest/dusk", "desert/noon", True)


def test_a_look_that_changes_one_frame_earlier_is_no_change_at_the_extension(settings_for, new_run):
    b = new_run()
    for f in range(80, 112):
        b.set_json(f, look={"biome": "desert", "lighting": "noon"})
    (c,) = planned(settings_for(), b).clips
    assert (c.look, c.ext_look, c.ext_look_change) == ("forest/dusk", "desert/noon", False)


def without_extension(settings, b):
    plan = planned(settings, b)
    (c,) = plan.clips
    assert (c.has_ext, c.n_blocks, c.ext_look, c.ext_look_change, len(c.actions)) == (False, 20, None, False, 20)
    assert plan.faults == ()
    return plan


def test_no_extension_where_a_frame_is_missing(settings_for, new_run):
    b = new_run()
    del b.members["000108.jpg"]
    assert without_extension(settings_for(), b).ext_rule_differs == 0


def test_no_extension_where_the_episode_changes_inside_it(settings_for, new_run):
    b = new_run()
    b.set_json(108, episode=1)
    without_extension(settings_for(), b)


def test_no_extension_where_the_camera_variant_changed_inside_the_clip(settings_for, new_run):
    b = new_run()
    for f in range(5):
        b.set_json(f, camera_variant="top")
    without_extension(settings_for(), b)


def test_the_replaced_rule_is_counted_where_it_differs(settings_for, new_run):
    b = new_run()
    b.blocks = [x for x in b.blocks if json.loads(x)["block"] != 22]
    assert without_extension(settings_for(), b).ext_rule_differs == 1
    b.blocks = [x for x in new_run().blocks if json.loads(x)["block"] != 26]
    assert without_extension(settings_for(), b).ext_rule_differs == 0


def test_what_a_clip_lacks_is_a_fault_of_that_clip_alone(settings_for, new_run):
    b = new_run(frames=324, clip_starts=[0, 108, 216, 400, 6, -4])
    del b.members["000110.ids.png"]
    del b.members["000120.json"]
    b.blocks = [x for x in b.blocks if json.loads(x)["block"] not in (60, 61)]
    plan = planned(settings_for(), b)
    assert [c.s for c in plan.clips] == [0]
    assert faults_of(plan) == {("member_missing", 108), ("block_missing", 216), ("member_missing", 400), ("block_missing", 400),
                               ("clip_start", 6), ("clip_start", -4)}  # fmt: skip
    assert plan.planned == 6 == len(plan.clips) + len(plan.failed)
    missing = [f for f in plan.faults if f.kind == "member_missing" and f.clip.endswith("000108")]
    assert [(f.frame, f.member) for f in missing] == [(110, "000110.ids.png"), (120, "000120.json")]
    assert any("blocks 60-61" in str(f) for f in plan.faults)


def test_a_bad_json_in_the_extension_is_a_fault_not_a_missing_extension(settings_for, new_run):
    b = new_run()
    b.set_json(100, dead="no")
    plan = planned(settings_for(), b)
    assert plan.clips == () and faults_of(plan) == {("json_invalid", 0)}


def test_a_target_that_does_not_fit_is_one_fault_of_the_run(settings_for, new_run):
    plan = planned(settings_for(size="128x64"), new_run())
    assert plan.clips == () and faults_of(plan) == {("size", None)} and "enlarge" in str(plan.faults[0])


def test_a_run_that_cannot_be_opened_has_a_plan_of_faults(settings_for):
    plan = plan_run(settings_for(), "R10_s9")
    assert plan.info is None and faults_of(plan) == {("run_unknown", None)}


def test_starts_that_stand_twice_and_no_starts(settings_for, new_run):
    assert faults_of(planned(settings_for(), new_run(clip_starts=[0, 0]))) == {("clip_twice", None)}
    assert faults_of(planned(settings_for(), new_run("R10_s2", clip_starts=[]))) == {("no_clips", None)}


def test_planning_twice_writes_nothing_the_second_time(settings_for, new_run):
    s = settings_for()
    planned(s, new_run())
    path = s.paths.plan("R10_s1")
    before = path.stat().st_mtime_ns, path.stat().st_ino
    plan_run(s, "R10_s1")
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
