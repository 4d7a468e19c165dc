package policy

// Config is the section "tools" of toolroom.yaml.
type Config struct {
	Rules `yaml:",inline"`
	// Agents, Providers and Identities narrow what the rules above permit, for
	// callers of that name.
	Agents     map[string]Rules `yaml:"agents,omitempty" json:"agents,omitempty"`
	Providers  map[string]Rules `yaml:"providers,omitempty" json:"providers,omitempty"`
	Identities map[string]Rules `yaml:"identities,omitempty" json:"identities,omitempty"`
	// Skills narrow to what a skill's manifest permits. A caller whose skill is
	// not here, or has no permissions, may call nothing.
	Skills map[string]Skill `yaml:"skills,omitempty" json:"skills,omitempty"`
	// Sets narrow to the tools of a tool set. They are written in the section "sets". A
	// caller whose set is not here may call nothing.
	Sets map[string]Rules `yaml:"-" json:"sets,omitempty"`
	// Hooks say what goes with a call of a tool; the first whose pattern
	// selects the tool counts.
	Hooks []Hook `yaml:"hooks,omitempty" json:"hooks,omitempty"`
	// Denylist is refused to everyone, whatever else is permitted.
	Denylist []Denial `yaml:"immutable_denylist,omitempty" json:"immutable_denylist,omitempty"`
	// Sensitive tools need an elevation.
	Sensitive Sensitive `yaml:"sensitive,omitempty" json:"sensitive,omitzero"`
	// Profiles and Groups are named sets of patterns of your own.
	Profiles map[string][]string `yaml:"profiles,omitempty" json:"profiles,omitempty"`
	Groups   map[string][]string `yaml:"groups,omitempty" json:"groups,omitempty"`
}

// Rules is one layer as toolroom.yaml writes it.
type Rules struct {
	// Profile is the base: minimal, messaging, coding, full (the default) or
	// one of Config.Profiles.
	Profile string `yaml:"profile,omitempty" json:"profile,omitempty"`
	// Allow adds to the profile, Deny takes away; deny always wins.
	Allow []string `yaml:"allow,omitempty" json:"allow,omitempty"`
	Deny  []string `yaml:"deny,omitempty" json:"deny,omitempty"`
	// Confirm asks a person before these tools run.
	Confirm []string `yaml:"confirm,omitempty" json:"confirm,omitempty"`
	// Autonomy is conservative, standard (the default) or autonomous. Of the
	// layers that apply, the most conservative counts.
	Autonomy Autonomy `yaml:"autonomy,omitempty" json:"autonomy,omitempty"`
}

// Hook is what goes with a call of the tools that a pattern selects.
type Hook struct {
	Tool string `yaml:"tool,omitempty" json:"tool"`
	// Action is confirm, log or silent.
	Action Action `yaml:"action,omitempty" json:"action"`
}

// Denial is an entry of the immutable denylist.
type Denial struct {
	Tool string `yaml:"tool,omitempty" json:"tool"`
	// ArgsPattern is a regular expression (RE2); empty denies every call. It is
	// tried on the arguments as JSON and on every text in them, also with white
	// space collapsed and look-alike characters made plain.
	ArgsPattern string `yaml:"args_pattern,omitempty" json:"args_pattern,omitempty"`
	Reason      string `yaml:"reason,omitempty" json:"reason,omitempty"`
}

// Sensitive names the tools that need an elevation, and what happens without.
type Sensitive struct {
	Tools []string `yaml:"tools,omitempty" json:"tools,omitempty"`
	// Mode is deny_without_elevation (the default) or
	// confirm_without_elevation.
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty"`
}

// The modes of sensitive tools.
const (
	DenyWithoutElevation    = "deny_without_elevation"
	ConfirmWithoutElevation = "confirm_without_elevation"
)

// Skill is a skill and what it may do: what Permissions says, or the member
// "permissions" of the file Manifest.
type Skill struct {
	Manifest    string       `yaml:"manifest,omitempty" json:"manifest,omitempty"`
	Permissions *Permissions `yaml:"permissions,omitempty" json:"permissions,omitempty"`
}

// Permissions is what a skill may do.
type Permissions struct {
	// Tools are patterns. When it is there, even empty, ToolGroups does not
	// count.
	Tools      *[]string `yaml:"tools,omitempty" json:"tools,omitempty"`
	ToolGroups []string  `yaml:"tool_groups,omitempty" json:"tool_groups,omitempty"`
	// FS are globs of absolute paths; * stays within a folder, ** does not.
	FS FSPermissions `yaml:"fs,omitempty" json:"fs,omitzero"`
	// Net are the places that the skill may reach.
	Net []NetPermission `yaml:"net,omitempty" json:"net,omitempty"`
	// Secrets are the scopes whose secrets its tools may be given.
	Secrets SecretPermissions `yaml:"secrets,omitempty" json:"secrets,omitzero"`
	// ExecutionEnvironment is the least isolation of its tools.
	ExecutionEnvironment string `yaml:"execution_environment,omitempty" json:"execution_environment,omitempty"`
}

// FSPermissions are globs of paths.
type FSPermissions struct {
	Read  []string `yaml:"read,omitempty" json:"read,omitempty"`
	Write []string `yaml:"write,omitempty" json:"write,omitempty"`
}

// NetPermission is a host, of which * may be a part, and its ports; none stands
// for all.
type NetPermission struct {
	Host  string `yaml:"host,omitempty" json:"host"`
	Ports []int  `yaml:"ports,omitempty" json:"ports,omitempty"`
}

// SecretPermissions are scopes of secrets; * may be a part.
type SecretPermissions struct {
	Scopes []string `yaml:"scopes,omitempty" json:"scopes,omitempty"`
}
