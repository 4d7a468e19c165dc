package nearest

import (
	"strings"

	"github.com/toolroom/toolroom"
)

// leastID is the minimum number of characters of a shortened id, without its kind.
const leastID = 4

// ID returns the one of ids that equals typed or begins with it. typed may omit the kind
// (call_, apr_, …). If no id matches, ID returns typed, so that the caller reports it as
// unknown. If several match, it returns an error with code invalid_id.
func ID(typed string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == typed {
			return id, nil
		}
		_, rest, _ := strings.Cut(id, "_")
		if rest == "" {
			rest = id
		}
		_, short, ok := strings.Cut(typed, "_")
		if !ok {
			short = typed
		}
		if len(short) >= leastID && (strings.HasPrefix(id, typed) || strings.HasPrefix(rest, typed)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return typed, nil
	case 1:
		return found[0], nil
	}
	return "", toolroom.Errorf(toolroom.CodeInvalidID, "%q is the beginning of %d ids", typed, len(found)).
		WithHint("type more of one: %s", strings.Join(found[:min(len(found), 5)], ", "))
}
