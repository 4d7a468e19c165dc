package bridge

import "github.com/toolroom/toolroom"

// Content is what a program keeps as an artifact, as bytes with their media
// type: bytes and text as they are, all else as JSON.
func Content(v Value, mediaType string) ([]byte, string, error) {
	kind, data := "", []byte(nil)
	switch v := v.(type) {
	case []byte:
		data = v
	case string:
		kind, data = "text/plain", []byte(v)
	default:
		text, err := ToJSON(v)
		if err != nil {
			return nil, "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the data cannot be kept as JSON: %w", err)
		}
		kind, data = "application/json", text
	}
	if mediaType == "" {
		mediaType = kind
	}
	return data, mediaType, nil
}
