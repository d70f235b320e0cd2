"""`certify` finds planted faults in environments of other forms, and none in sound ones."""

import pytest

from jaxenv.testing import certify
from tests.testing.foreign import CLASSES, FAULTS

TABLE = [(api, fault, name) for api, faults in FAULTS.items() for fault, name in faults.items()]


@pytest.mark.parametrize("api", CLASSES)
def test_a_sound_environment_has_no_finding(api):
    certificate = certify(CLASSES[api](), api=api)
    assert certificate.exit_status == 0, str(certificate)


@pytest.mark.parametrize(("api", "fault", "name"), TABLE, ids=[f"{api}-{fault}" for api, fault, _ in TABLE])
def test_a_planted_fault_is_found(api, fault, name):
    certificate = certify(CLASSES[api](fault), api=api, properties=[name])
    assert [r.name for r in certificate.failed] == [name], str(certificate)
    (finding,) = certificate.failed
    assert finding.expected
    assert finding.seen
    assert len(finding.reproduction.splitlines()) <= 15
    assert "jaxenv" not in finding.reproduction
