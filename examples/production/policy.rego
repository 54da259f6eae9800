package support

import rego.v1

default result := {"decision": "CONTINUE"}

result := {"decision": "REQUIRE_APPROVAL", "reason": "refunds over 200 need a person"} if {
	input.event_type == "ActivityStarted"
	input.activity_type == "refund"
	input.activity_input[0].amount > 200
}
