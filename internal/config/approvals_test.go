package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachMistakeInApprovalsAndReceiptsNamesItsPlaceAndItsReason(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"approvals: {rules: [{match: a b}]}":                    `t.yaml:1:29: approvals.rules[0].match: "a b" has no namespace: write namespace.name, namespace.* or *`,
		"approvals: {rules: [{match: '*', people: 99}]}":        "t.yaml:1:42: approvals.rules[0].people: 99 is not a number of people from 1 to 10",
		"approvals: {rules: [{match: '*', scopes: [allways]}]}": `t.yaml:1:43: approvals.rules[0].scopes[0]: "allways" is not one of once, call, session, always; did you mean always?`,
		"approvals: {approvers: ['']}":                          `t.yaml:1:25: approvals.approvers[0]: "" is not an approver: write operator, caller, group:NAME, hook:NAME or a name`,
		"approvals: {writes: [{match: 'f:w'}]}":                 "t.yaml:1:22: approvals.writes[0].root: the folder whose files may be read is missing; for example root: .",
		"approvals: {webhooks: [{name: a, url: 'ftp://x'}]}":    "t.yaml:1:39: approvals.webhooks[0].url: it is not an http or https URL; for example https://example.com/mcp",
		"receipts: {reserve: -1}":                               "t.yaml:1:21: receipts.reserve: -1 is negative",
		"receipts: {must: [a b]}":                               `t.yaml:1:19: receipts.must[0]: "a b" has no namespace: write namespace.name, namespace.* or *`,
	} {
		if diff := cmp.Diff(want, mistakes(t, text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
