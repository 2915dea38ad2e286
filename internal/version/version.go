// Package version tells which build of the program is running.
package version

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// Info is what the build recorded about itself.
type Info struct {
	Version   string            `json:"version"` // module version, or "devel"
	Commit    string            `json:"commit"`  // VCS revision, with "-dirty" for changed files; may be empty
	Time      string            `json:"time"`    // RFC 3339 time of the commit; may be empty
	Go        string            `json:"go"`
	Libraries map[string]string `json:"libraries"` // module path to version, of the libraries that matter to an operator
}

// reported are the libraries whose version helps to understand a problem.
func reported() []string {
	return []string{
		"github.com/apache/iceberg-go",
		"github.com/apache/arrow-go/v18",
		"github.com/jackc/pgx/v5",
		"github.com/aws/aws-sdk-go-v2",
	}
}

// Get reads the build information that the Go linker put into the binary.
func Get() Info {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{Version: "unknown"}
	}

	return fromBuild(bi)
}

func fromBuild(bi *debug.BuildInfo) Info {
	info := Info{Version: bi.Main.Version, Go: bi.GoVersion, Libraries: map[string]string{}}
	if info.Version == "" || info.Version == "(devel)" {
		info.Version = "devel"
	}
	dirty := false
	for _, s := range bi.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Time = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && info.Commit != "" {
		info.Commit += "-dirty"
	}
	for _, dep := range bi.Deps {
		for _, path := range reported() {
			if dep.Path == path {
				info.Libraries[path] = dep.Version
			}
		}
	}

	return info
}

// String is one line for people.
func (i Info) String() string {
	parts := []string{i.Version}
	if i.Commit != "" {
		parts = append(parts, i.Commit)
	}

	return fmt.Sprintf("%s (%s)", strings.Join(parts, " "), i.Go)
}
