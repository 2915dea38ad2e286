package main

import (
	"flag"
	"os"
	"testing"

	"github.com/urfave/cli/v2"

	"compactor/internal/testenv"
)

// asProgram makes the test binary behave as the program, so that tests can
// start, signal and kill real processes without another build.
const asProgram = "COMPACTOR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	cli.HelpFlag = helpFlag{cli.HelpFlag.(*cli.BoolFlag)}
	testenv.Main(m)
}

// helpFlag is the library's help flag for tests that run the program several
// times at once in one process: parsing writes to a copy of it.
type helpFlag struct{ *cli.BoolFlag }

func (h helpFlag) Apply(set *flag.FlagSet) error {
	parsed := *h.BoolFlag

	return parsed.Apply(set)
}
