package toolroom_test

import (
	"testing"

	"github.com/toolroom/toolroom"
)

func TestEffectsAreReadAndSaidInPlainWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"file.write:/etc/hosts":         "writes /etc/hosts",
		"file:/etc/hosts":               "reads or changes /etc/hosts",
		"file.delete":                   "deletes a file that is not known in advance",
		"host.post:api.example.com:443": "sends POST to api.example.com:443",
		"host.connect:h:22":             "connects to h:22",
		"host":                          "connects to a host that is not known in advance",
		"command:git push":              "runs git push",
		"command":                       "runs a command that is not known in advance",
		"sql.drop:users":                "does SQL DROP on users",
		"sql":                           "does SQL of an unknown kind on an unknown table",
		"spend:12 EUR":                  "spends 12 EUR",
		"send:h:443":                    "can send data to h:443",
		"send":                          "can send data outside",
		"destroy":                       "can destroy something",
		"destroy:api.example.com:443":   "can destroy something at api.example.com:443",
		"destroy:/srv/a":                "can destroy /srv/a",
	} {
		e, err := toolroom.ParseEffect(text)
		if err != nil || e.String() != want {
			t.Errorf("%s: %q, want %q (%v)", text, e, want, err)
		}
	}
	for _, text := range []string{"", ":", "file:", "file.", "file.run", "files:/x", "send.all", "sql.DROP", "host.get\n:x"} {
		if e, err := toolroom.ParseEffect(text); err == nil {
			t.Errorf("%q is read as %+v", text, e)
		}
	}
}
