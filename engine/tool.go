package engine

import "slices"

// What a tool may be classified as: the categories, from the least consequence to
// the most, and the risk domains of the Agent Action Contract v1.
var (
	toolCategories = []string{"public_read", "private_read", "write", "unknown"}
	riskDomains    = []string{
		"devops", "finance", "education", "hr", "legal", "pharma", "healthcare", "commerce", "customer_support",
		"security", "research", "personal_productivity", "public_information", "unknown",
	}
)

// ToolCategories lists the names of the categories.
func ToolCategories() []string { return slices.Clone(toolCategories) }

// RiskDomains lists the names of the risk domains.
func RiskDomains() []string { return slices.Clone(riskDomains) }
