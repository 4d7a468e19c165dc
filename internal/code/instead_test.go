package code

import (
	"strings"
	"testing"
)

func TestAMissingModuleSaysWhatThereIsInstead(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"ModuleNotFoundError: No module named 'requests'":                           "web:fetch",
		"ModuleNotFoundError: No module named 'requests.auth'":                      "web:fetch",
		"ModuleNotFoundError: No module named 'numpy'":                              "no packages",
		"ReferenceError: fetch is not defined":                                      "web:fetch",
		"ReferenceError: require is not defined":                                    "without Node.js",
		"URLError: <urlopen error [Errno -3] Temporary failure in name resolution>": "egress",
		"Error: getaddrinfo EAI_AGAIN example.com":                                  "egress",
		"ReferenceError: total is not defined":                                      "",
		"ValueError: requests":                                                      "",
	} {
		if got := missingNameHint(message); got == "" != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", message, got)
		}
	}
}
