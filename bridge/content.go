package bridge

import "github.com/toolroom/toolroom"

// Content returns the bytes and the media type under which a program's value is
// stored as an artifact. Bytes and text stay as they are; all else becomes JSON.
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
			return nil, "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the data cannot be stored as JSON: %w", err)
		}
		kind, data = "application/json", text
	}
	if mediaType == "" {
		mediaType = kind
	}
	return data, mediaType, nil
}
