"""How assets are partitioned: by tenant, and by tenant and embedding profile."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from rag_assets.keys import check_key

TENANT_TAG = "dagster/partition/tenant"
PROFILE_TAG = "dagster/partition/profile"

tenants = dg.DynamicPartitionsDefinition(name="tenant")
profiles = dg.DynamicPartitionsDefinition(name="profile")
tenant_profile = dg.MultiPartitionsDefinition({"tenant": tenants, "profile": profiles})


def pair_key(tenant: str, profile: str) -> dg.MultiPartitionKey:
    """The partition key of a pair; Dagster orders its parts by the name of the dimension.

    Raises:
        InvalidKey: a part could never be run, although Dagster would accept it.
    """
    return dg.MultiPartitionKey({"tenant": check_key(tenant, "tenant"), "profile": check_key(profile, "profile")})


def missing_partitions(
    instance: dg.DagsterInstance, tenant_keys: Iterable[str], profile_keys: Iterable[str]
) -> tuple[list[str], list[str]]:
    """The tenants and the profiles that Dagster has no partition for yet, sorted.

    Raises:
        InvalidKey: for the first key that is not one.
    """
    wanted_tenants = {check_key(key, "tenant") for key in tenant_keys}
    wanted_profiles = {check_key(key, "profile") for key in profile_keys}
    return (
        sorted(wanted_tenants - set(instance.get_dynamic_partitions("tenant"))),
        sorted(wanted_profiles - set(instance.get_dynamic_partitions("profile"))),
    )


def ensure_partitions(instance: dg.DagsterInstance, tenant_keys: Iterable[str], profile_keys: Iterable[str]) -> None:
    """Add the partitions that are missing."""
    new_tenants, new_profiles = missing_partitions(instance, tenant_keys, profile_keys)
    if new_tenants:
        instance.add_dynamic_partitions("tenant", new_tenants)
    if new_profiles:
        instance.add_dynamic_partitions("profile", new_profiles)
