package cedar

import (
	"encoding/json"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// cedarNumber converts a JSON number to a Cedar value. Equal numbers have equal values: 100, 1e2
// and 100.0 are the same Long. It returns false if Cedar cannot represent the number.
func cedarNumber(n json.Number) (cedar.Value, bool) {
	canonical, err := jsonx.Canonical([]byte(n))
	if err != nil {
		return nil, false
	}
	text := string(canonical)
	if !strings.ContainsAny(text, ".eE") {
		i, err := json.Number(text).Int64()
		return cedar.Long(i), err == nil
	}
	d, err := types.ParseDecimal(text)
	return d, err == nil
}
