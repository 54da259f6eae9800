package support

import rego.v1

default result := {"decision": "CONTINUE"}

result := {"decision": "BLOCK", "reason": "refunds are paid out in whole amounts only"} if {
	input.event_type == "ActivityStarted"
	input.activity_type == "refund"
	input.activity_input[0].amount != floor(input.activity_input[0].amount)
}
