package egress

import "regexp"

// wanted matches what programs print if they find no name server.
var wanted = regexp.MustCompile(`(?i)could not resolve|name resolution|getaddrinfo|EAI_AGAIN|no such host|name or service not known|network is unreachable|dial tcp: lookup|unable to resolve`)

// IsWanted reports whether a program that has no network says in its output that it failed
// for want of one.
func IsWanted(output string) bool { return wanted.MatchString(output) }
