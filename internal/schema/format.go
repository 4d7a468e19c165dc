package schema

// formatExample returns a text in a format, to show and to fill in.
func formatExample(name string) (string, bool) {
	switch name {
	case "date":
		return "2026-01-31", true
	case "time":
		return "12:30:00Z", true
	case "date-time":
		return "2026-01-31T12:30:00Z", true
	case "duration":
		return "PT1H30M", true
	case "email", "idn-email":
		return "name@example.com", true
	case "hostname", "idn-hostname":
		return "example.com", true
	case "ipv4":
		return "192.0.2.1", true
	case "ipv6":
		return "2001:db8::1", true
	case "uri", "iri":
		return "https://example.com/", true
	case "uri-reference", "iri-reference":
		return "/path", true
	case "uri-template":
		return "https://example.com/{id}", true
	case "uuid":
		return "123e4567-e89b-12d3-a456-426614174000", true
	case "json-pointer":
		return "/a/0", true
	case "relative-json-pointer":
		return "1/a", true
	case "regex":
		return "^[a-z]+$", true
	case "semver":
		return "1.2.3", true
	default:
		return "", false
	}
}
