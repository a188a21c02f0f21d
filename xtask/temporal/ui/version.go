// Package version says that there are no web pages.
package version

const UIVersion = "none"
