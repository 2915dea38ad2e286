// Package deploy holds what the repository offers for running the program
// (configs/kubernetes, configs/helm, configs/docker, configs/compose,
// configs/systemd, configs/cron, .github/workflows) to the tools it is meant for:
// Helm's linter and renderer, Kubernetes' own types, the Compose specification,
// hadolint, systemd-analyze and actionlint. The command lines and configuration
// files in it are given to the program itself.
//
// It is a module of its own, so that Helm and Kubernetes are no dependencies of
// the program. It has only tests; "make check" runs them.
package deploy
